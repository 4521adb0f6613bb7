package assembly_test

import (
	"reflect"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/oauth"
	"github.com/memory-ledger/ledger/services/run/adminlog"
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
