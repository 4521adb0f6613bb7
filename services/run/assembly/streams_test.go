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
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

// TestTheLogIsMadeAlike: a log that a service creates on a single server has the same
// configuration as one that `ledger provision` creates from the files of infra/nats. The test
// compares what the server reports.
func TestTheLogIsMadeAlike(t *testing.T) {
	t.Parallel()
	made := func(create func(js jetstream.JetStream) error) jetstream.StreamConfig {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		must(t, create(js))
		stream, err := js.Stream(t.Context(), eventlog.StreamName)
		must(t, err)
		return stream.CachedInfo().Config
	}
	byService := made(func(js jetstream.JetStream) error {
		return errorOf(eventlog.Create(t.Context(), js.Conn(), eventlog.Config{}))
	})
	byFile := made(func(js jetstream.JetStream) error { return errorOf(natsconf.Provision(t.Context(), js, 1)) })
	if !reflect.DeepEqual(byService, byFile) {
		t.Errorf("\nby a service %+v\nby the file  %+v", byService, byFile)
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
