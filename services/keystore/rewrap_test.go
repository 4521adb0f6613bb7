package keystore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

func openStore(t *testing.T, bucket jetstream.KeyValue, masters ...keystore.Master) *keystore.Store {
	t.Helper()
	return openWith(t, bucket, keystore.Config{Masters: masters})
}

// openMarked is openStore with the bucket's marks.
func openMarked(t *testing.T, js jetstream.JetStream, bucket jetstream.KeyValue, masters ...keystore.Master) *keystore.Store {
	t.Helper()
	return openWith(t, bucket, keystore.Config{Masters: masters, Stream: streamOf(t, js)})
}

func streamOf(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	stream, err := js.Stream(t.Context(), keystore.Stream)
	must(t, err)
	return stream
}

// openPausing is openMarked with the test's pause.
func openPausing(t *testing.T, js jetstream.JetStream, pause func(context.Context, time.Duration) bool) *keystore.Store {
	t.Helper()
	bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
	must(t, err)
	return openWith(t, bucket, keystore.Config{Masters: []keystore.Master{keystore.MasterKey{1}}, Stream: streamOf(t, js), Pause: pause})
}

func openWith(t *testing.T, bucket jetstream.KeyValue, cfg keystore.Config) *keystore.Store {
	t.Helper()
	s := keystore.Open(bucket, cfg)
	return s
}

// makeKey makes an owner's data key.
func makeKey(t *testing.T, s *keystore.Store, owner events.Owner) {
	t.Helper()
	must(t, errorOf(s.FindOrCreate(t.Context(), owner, 0, nil)))
}

func newOwners(n int) []events.Owner {
	owners := make([]events.Owner, n)
	for i := range owners {
		owners[i] = logtest.Owner()
	}
	return owners
}

// TestRewrapPassesADamagedKey: it stays as it is, the others get the new key, and the error
// names it. A backup's key replaces it, and leaves no byte of an older one in the server's files.
func TestRewrapPassesADamagedKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	js := connect(t, natstest.Start(t, natstest.Dir(dir)))
	bucket, owners := bucketIn(t, js), newOwners(20)
	old, fresh := keystore.MasterKey{1}, keystore.MasterKey{2}
	s := openMarked(t, js, bucket, old)
	stored := func(owner events.Owner) jetstream.KeyValueEntry {
		entry, err := bucket.Get(t.Context(), string(owner))
		must(t, err)
		return entry
	}
	for _, o := range owners {
		makeKey(t, s, o)
	}
	copied, others := stored(owners[0]), stored(owners[1])
	must(t, s.DestroyLeaves(t.Context(), owners[0], 7))
	newer := stored(owners[0])
	for _, c := range []struct {
		erasures int
		copied   jetstream.KeyValueEntry
		may      bool
	}{{0, copied, true}, {0, nil, false}, {1, copied, false}} { // nil: as damaged
		damaged := fmt.Appendf(bytes.TrimSuffix(others.Value(), []byte("}")), `,"erasures":%d}`, c.erasures) // does not open as this owner's
		must(t, errorOf(bucket.Put(t.Context(), string(owners[0]), damaged)))
		is, err := openMarked(t, js, bucket, fresh, old).PutBack(t.Context(), cmp.Or(c.copied, stored(owners[0])))
		if is != c.may || err != nil || bytes.Contains(stored(owners[0]).Value(), []byte(fresh.ID())) != is {
			t.Errorf("%+v: %v, %v", c, is, err)
		}
	}
	if files := natstest.FilesHolding(t, dir, newer.Value()); len(files) > 0 {
		t.Errorf("what a damaged key had replaced is in %q", files)
	}
	for _, noOwner := range []string{"test", "no!key"} { // neither is a data key
		must(t, errorOf(js.Publish(t.Context(), "$KV."+keystore.Bucket+"."+noOwner, []byte("x"))))
	}
	done, err := openStore(t, bucket, fresh, old).Rewrap(t.Context(), nil)
	if !errors.Is(err, keystore.ErrSealed) || !strings.Contains(err.Error(), string(owners[0])) || done.Damaged != 1 || done.Fresh != 19 {
		t.Errorf("%+v, %v", done, err)
	}
	if !bytes.HasPrefix(stored(owners[0]).Value(), bytes.TrimSuffix(others.Value(), []byte("}"))) {
		t.Error("the damaged key was changed")
	}
	must(t, errorOf(openStore(t, bucket, fresh).Find(t.Context(), owners[2])))
}

// TestRotationIsInterruptedAtEveryStep: a rotation ends at each of its writes and syncs,
// before it takes effect or after. At every moment the two keys together open everything,
// as services do that know both. A rotation that says that it ended leaves every entry under the new key
// alone, and no byte of an old one in the server's files.
func TestRotationIsInterruptedAtEveryStep(t *testing.T) {
	t.Parallel()
	old, fresh := keystore.MasterKey{1}, keystore.MasterKey{2}
	for step, fired := 0, true; fired; step++ {
		for _, late := range []bool{false, true} {
			dir := t.TempDir()
			js := connect(t, natstest.Start(t, natstest.Dir(dir)))
			bucket := bucketIn(t, js)
			owners := newOwners(2)
			var before [][]byte
			for _, owner := range owners {
				makeKey(t, openStore(t, bucket, old), owner)
				entry, err := bucket.Get(t.Context(), string(owner))
				must(t, err)
				before = append(before, entry.Value())
			}
			f := &fault{t: t, step: step, late: late}
			rotating := openWith(t, faultyBucket{bucket, f}, keystore.Config{Masters: []keystore.Master{fresh, old}, Stream: faultyStream{streamOf(t, js), f}, Sync: f.sync})
			_, err := rotating.Rotate(t.Context(), nil)
			if fired = f.steps > step; err != nil && !errors.Is(err, errCrash) {
				t.Fatalf("step %d, late %v: %v", step, late, err)
			}
			ended := err == nil
			for _, owner := range owners {
				if _, err := openStore(t, bucket, fresh, old).Find(t.Context(), owner); err != nil {
					t.Fatalf("step %d, late %v: %v", step, late, err)
				}
			}
			if !ended {
				if done, err := openMarked(t, js, bucket, fresh, old).Rotate(t.Context(), nil); err != nil || done.Entries != 2 {
					t.Fatalf("step %d, late %v, again: %+v, %v", step, late, done, err)
				}
			}
			for i, owner := range owners {
				if _, err := openStore(t, bucket, fresh).Find(t.Context(), owner); err != nil {
					t.Errorf("step %d, late %v, with the new key alone: %v", step, late, err)
				}
				if files := natstest.FilesHolding(t, dir, before[i]); len(files) > 0 {
					t.Errorf("step %d, late %v: the old entry is in %v", step, late, files)
				}
			}
		}
	}
}

// fault fails from one of the steps on that change something: before its effect or, if
// late, after it, as a process that is killed before it sees the answer.
type fault struct {
	t           *testing.T
	steps, step int
	late        bool
	unsynced    bool
}

func (f *fault) at(do func() error) error {
	f.steps++
	if f.steps <= f.step {
		return do()
	}
	if f.late && f.steps == f.step+1 {
		must(f.t, do())
	}
	return errCrash
}

func (f *fault) sync(context.Context) error {
	return f.at(func() error { f.unsynced = false; return nil })
}

type faultyBucket struct {
	jetstream.KeyValue
	*fault
}

func (f faultyBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (stored uint64, err error) {
	f.unsynced = true
	err = f.at(func() (err error) { stored, err = f.KeyValue.Update(ctx, key, value, revision); return err })
	return stored, err
}

type faultyStream struct {
	jetstream.Stream
	*fault
}

func (f faultyStream) SecureDeleteMsg(ctx context.Context, seq uint64) error {
	if f.unsynced {
		f.t.Error("an old entry is erased while the new one is not on stable storage")
	}
	return f.at(func() error { return f.Stream.SecureDeleteMsg(ctx, seq) })
}

// TestRotationFindsAServiceWithTheOldKey: the operator would destroy a key that an entry
// still needs.
func TestRotationFindsAServiceWithTheOldKey(t *testing.T) {
	t.Parallel()
	js := connect(t, natstest.Start(t))
	bucket := bucketIn(t, js)
	old, fresh := keystore.MasterKey{1}, keystore.MasterKey{2}
	service := openStore(t, bucket, old)
	makeKey(t, service, logtest.Owner())
	done, err := openMarked(t, js, bucket, fresh, old).Rotate(t.Context(), func(keystore.Rewrapped) { makeKey(t, service, logtest.Owner()) })
	if !errors.Is(err, keystore.ErrStillUsed) || done.Fresh != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// A key that is destroyed between reading and writing stays destroyed.
func TestRewrapResurrectsNobody(t *testing.T) {
	t.Parallel()
	bucket := newBucket(t)
	old, fresh := keystore.MasterKey{1}, keystore.MasterKey{2}
	owner := logtest.Owner()
	makeKey(t, openStore(t, bucket, old), owner)
	s := openStore(t, forgetful{bucket}, fresh, old)
	done, err := s.Rewrap(t.Context(), nil)
	if err != nil || done.Gone != 1 || done.Fresh != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := openStore(t, bucket, fresh, old).Find(t.Context(), owner); !errors.Is(err, keystore.ErrNoKey) {
		t.Errorf("forgotten owner: %v", err)
	}
}

// forgetful deletes an entry right before it is updated.
type forgetful struct{ jetstream.KeyValue }

func (f forgetful) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := f.Delete(ctx, key); err != nil {
		return 0, err
	}
	return f.KeyValue.Update(ctx, key, value, revision)
}

// A list that ends because the connection is lost is not complete: the operator must not
// drop the master key that wraps the rest.
func TestRewrapTellsAListCutShort(t *testing.T) {
	t.Parallel()
	bucket := newBucket(t)
	old, fresh := keystore.MasterKey{1}, keystore.MasterKey{2}
	for _, owner := range newOwners(3) {
		makeKey(t, openStore(t, bucket, old), owner)
	}
	done, err := openStore(t, severed{bucket}, fresh, old).Rewrap(t.Context(), nil)
	if !errors.Is(err, keystore.ErrUnavailable) || done.Fresh != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestAListThatIsTakenUpAgainIsWhole: the log's server restarts while the bucket is listed. A
// key that is passed over would stay under the old master key, which the operator destroys.
func TestAListThatIsTakenUpAgainIsWhole(t *testing.T) {
	t.Parallel()
	slow(t) // the client makes another consumer after 10 to 20 seconds
	server := natstest.StartProcess(t)
	_, js := natstest.Connect(t, server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	bucket, owners, times := bucketIn(t, js), newOwners(4000), map[events.Owner]int{}
	put := func(owner events.Owner) {
		msg := nats.NewMsg("$KV." + keystore.Bucket + "." + string(owner))
		msg.Header.Set("long", strings.Repeat("x", 4<<10)) // so that the server waits with the rest
		must(t, errorOf(js.PublishMsgAsync(msg)))
	}
	for _, owner := range owners {
		put(owner)
	}
	for i := len(owners) - 1; i > 0; i -= 2 { // their older entries are among the others' newest
		put(owners[i])
	}
	<-js.PublishAsyncComplete()
	must(t, keystore.Each(t.Context(), bucket, func(owner events.Owner) error {
		if times[owner]++; len(times) == 1 {
			server.Kill()
			server.Start()
		}
		if times[owner] > 1 {
			t.Errorf("%s came again", owner)
		}
		return nil
	}))
	if len(times) != len(owners) {
		t.Errorf("%d of %d keys were listed", len(times), len(owners))
	}
}

// severed lists one entry, then ends as if the connection were closed.
type severed struct{ jetstream.KeyValue }

func (s severed) WatchAll(ctx context.Context, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	whole, err := s.KeyValue.WatchAll(ctx, opts...)
	if err != nil {
		return nil, err
	}
	cut := make(chan jetstream.KeyValueEntry, 1)
	cut <- <-whole.Updates()
	close(cut)
	return severedList{whole, cut}, nil
}

type severedList struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (l severedList) Updates() <-chan jetstream.KeyValueEntry { return l.updates }
