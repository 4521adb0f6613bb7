package assembly_test

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/oauth"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/signin"
)

// TestStreamsAreMadeAlike: the streams that a service creates on a single server have the
// same configuration as the streams that `ledger provision` creates from the files of
// infra/nats. The test compares what the server reports.
func TestStreamsAreMadeAlike(t *testing.T) {
	t.Parallel()
	made := func(create func(js jetstream.JetStream) error) map[string]jetstream.StreamConfig {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		must(t, create(js))
		all := make(map[string]jetstream.StreamConfig)
		streams := js.ListStreams(t.Context())
		for info := range streams.Info() {
			all[info.Config.Name] = info.Config
		}
		must(t, streams.Err())
		return all
	}
	byServices := made(func(js jetstream.JetStream) error {
		if _, err := eventlog.Create(t.Context(), js.Conn(), eventlog.Config{}); err != nil {
			return err
		}
		if _, err := keystore.Create(t.Context(), js, 1); err != nil {
			return err
		}
		if _, err := signin.CreateNonceBucket(t.Context(), js, 1); err != nil {
			return err
		}
		if _, err := oauth.CreateBucket(t.Context(), js, 1); err != nil {
			return err
		}
		_, err := adminlog.Open(t.Context(), js, 1)
		return err
	})
	byFiles := made(func(js jetstream.JetStream) error {
		_, err := natsconf.Provision(t.Context(), js, 1)
		return err
	})
	if len(byFiles) != 5 || len(byServices) != len(byFiles) {
		t.Errorf("%d streams by services, %d by files", len(byServices), len(byFiles))
	}
	for name, want := range byFiles {
		if got := byServices[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nby services %+v\nby files    %+v", name, got, want)
		}
	}
}

// TestNoKeyOfTheEndpointInErrors: providers put their API key into the URL, and the
// errors of failed checks are printed.
func TestNoKeyOfTheEndpointInErrors(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close() // nothing answers at its address now
	for _, url := range []string{away.URL + "/s3cr3t?api-key=s3cr3t", "http://h/%s3cr3t"} {
		anybody := solana.SystemProgramID.String()
		chain, err := assembly.NewOnchain(config.Config{SolanaRPCURL: url, CommitmentProgramID: anybody}, anybody)
		if err == nil {
			_, err = chain.Commitments(t.Context(), []events.Owner{events.Owner(anybody)})
		}
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
}
