package device_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/device"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest/devicetest"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestOwnersOfADevice(t *testing.T) {
	t.Parallel()
	socket := devicetest.Socket(t)
	ownersOf(t, socket, func() func() { return devicetest.Start(t, socket, keystore.MasterKey{7}) })
}

// ownersOf is the life of two owners whose keys a device wraps. start starts the program
// that has the device, and returns how to stop it.
func ownersOf(t *testing.T, socket string, start func() (stop func())) {
	t.Helper()
	if _, err := device.Open(t.Context(), socket); !errors.Is(err, keystore.ErrUnavailable) {
		t.Errorf("before there is a device: %v", err)
	}
	stop := start()
	key, err := device.Open(t.Context(), socket)
	must(t, err)
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	bucket, err := natsconf.CreateBucket(t.Context(), js, keystore.Bucket, 1)
	must(t, err)
	stream, err := js.Stream(t.Context(), keystore.Stream)
	must(t, err)
	now := time.Now()
	open := func(masters ...keystore.Master) *keystore.Store {
		t.Helper()
		s := keystore.Open(bucket, keystore.Config{Masters: masters, Stream: stream, Now: func() time.Time { return now }})
		return s
	}
	file := keystore.MasterKey{1}

	// From a key in a file to the device.
	first, second := logtest.Owner(), logtest.Owner()
	made, err := open(file).FindOrCreate(t.Context(), first, 0, nil)
	must(t, err)
	sealed, sealing := made.Seal(0, "m", "text")
	if done, err := open(key, file).Rotate(t.Context(), nil); err != nil || done.Fresh != 1 {
		t.Fatalf("to the device: %+v, %v", done, err)
	}
	if _, err := open(file).Find(t.Context(), first); !errors.Is(err, keystore.ErrMasterKey) {
		t.Errorf("with the file's key: %v", err)
	}
	if newest, err := keystore.NewestMaster(t.Context(), js); err != nil || newest != key.ID() {
		t.Errorf("the newest entry names %s, not %s, %v", newest, key.ID(), err)
	}
	service := open(key)
	opens := func(s *keystore.Store) error {
		t.Helper()
		found, err := s.Find(t.Context(), first)
		if err != nil {
			return err
		}
		if text, err := found.Open(int(sealing), 0, "m", sealed); err != nil || text != "text" {
			t.Errorf("%q, %v", text, err)
		}
		return nil
	}
	must(t, opens(service))
	must(t, errorOf(open(key).FindOrCreate(t.Context(), second, 0, nil)))
	if checked, err := open(key).CheckAll(t.Context(), func(keystore.Checked) {}); err != nil || checked.Opened != 2 {
		t.Errorf("%+v, %v", checked, err)
	}

	// An entry that is altered, or another owner's, does not unwrap, and harms no one else.
	for what, value := range map[string][]byte{"altered": altered(t, bucket, second), "moved": valueOf(t, bucket, first)} {
		must(t, errorOf(bucket.Put(t.Context(), string(second), value)))
		if _, err := open(key).Find(t.Context(), second); !errors.Is(err, keystore.ErrSealed) || errors.Is(err, keystore.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, opens(open(key)))

	// Without the device, who is in memory and unchanged goes on, also when the entry is
	// read again.
	stop()
	now = now.Add(2 * time.Minute)
	must(t, opens(service))
	if err := opens(open(key)); !errors.Is(err, keystore.ErrUnavailable) {
		t.Errorf("who is not in memory: %v", err)
	}
	must(t, open(key).Check(t.Context(), first)) // readiness does not ask the device
	if _, err := service.FindOrCreate(t.Context(), logtest.Owner(), 0, nil); !errors.Is(err, keystore.ErrUnavailable) {
		t.Errorf("a new owner: %v", err)
	}
	if _, err := open(key).CheckAll(t.Context(), func(keystore.Checked) {}); !errors.Is(err, keystore.ErrUnavailable) {
		t.Errorf("a check: %v", err)
	}
	start()
	must(t, opens(open(key)))
}

func valueOf(t *testing.T, bucket jetstream.KeyValue, owner events.Owner) []byte {
	t.Helper()
	entry, err := bucket.Get(t.Context(), string(owner))
	must(t, err)
	return entry.Value()
}

// altered changes a character of what the device has wrapped.
func altered(t *testing.T, bucket jetstream.KeyValue, owner events.Owner) []byte {
	t.Helper()
	value := append([]byte(nil), valueOf(t, bucket, owner)...)
	at := len(value) / 4
	for at < len(value) && !(value[at] >= 'a' && value[at] < 'z') {
		at++
	}
	value[at]++
	return value
}

// TestADeviceThatHangs: a request ends in time, and no more than eight are under way.
func TestADeviceThatHangs(t *testing.T) {
	t.Parallel()
	socket := devicetest.Socket(t)
	var hangs atomic.Bool
	var arrived atomic.Int64
	var begun time.Time
	devicetest.Serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hangs.Load() {
			_, _ = w.Write([]byte(`{"data":"` + base64.StdEncoding.EncodeToString(make([]byte, keystore.KeySize)) + `"}`))
			return
		}
		if time.Since(begun) < time.Second { // then the first ones end, and others take their turns
			arrived.Add(1)
		}
		<-r.Context().Done()
	}))
	hung, err := device.Open(t.Context(), socket)
	must(t, err)
	begun = time.Now()
	hangs.Store(true)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if _, err := hung.Unwrap(context.Background(), make([]byte, 64), nil); !errors.Is(err, keystore.ErrUnavailable) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took > 10*time.Second || arrived.Load() > 8 || arrived.Load() == 0 {
		t.Errorf("%v, %d at once", took, arrived.Load())
	}
}
