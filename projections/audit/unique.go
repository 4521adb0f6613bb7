package audit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// idKind says what must be unique among its like.
type idKind byte

const (
	idCommand idKind = iota
	idEvent
	idMemory
	idIdempotency
)

var idNames = map[idKind]string{
	idCommand: "command id", idEvent: "event id", idMemory: "memory id", idIdempotency: "idempotency key",
}

const (
	idSize     = 16 + 1 + 8 // digest, kind, sequence
	idBuckets  = 256
	idInMemory = 1 << 18 // ids, in all buckets together
)

// uniques finds ids that were used twice. Ids are kept as digests and sorted into
// buckets by the first byte; beyond a bound the buckets go to a temporary file, so
// memory hardly grows with the log: 7 MB, and for each quarter of a million ids
// 2 KB of where they lie in the file and, while the buckets are looked through one
// by one, some 40 KB of one of them.
type uniques struct {
	digests *digester
	buckets [idBuckets][]byte
	held    int
	text    []byte   // of the id that is being added
	spilled *os.File // nil until something was
	end     int64    // of the file
	// ends says where each bucket's part ends in the file, spill by spill.
	ends [][idBuckets]int64
}

func (u *uniques) add(kind idKind, seq uint64, parts ...string) error {
	u.text = append(u.text[:0], byte(kind))
	for _, part := range parts {
		u.text = append(append(u.text, part...), 0)
	}
	sum := u.digests.of(u.text)
	var id [idSize]byte
	copy(id[:], sum[:])
	id[16] = byte(kind)
	binary.BigEndian.PutUint64(id[17:], seq)
	u.buckets[sum[0]] = append(u.buckets[sum[0]], id[:]...)
	if u.held++; u.held >= idInMemory {
		return u.spill()
	}
	return nil
}

// spill appends every bucket to the file. A crash leaves the file to the
// system's cleaning of temporary files.
func (u *uniques) spill() (err error) {
	if u.spilled == nil {
		if u.spilled, err = os.CreateTemp("", "ledger-audit-"); err != nil {
			return fmt.Errorf("spill ids: %w", err)
		}
	}
	var ends [idBuckets]int64
	for i, bucket := range u.buckets {
		if _, err := u.spilled.WriteAt(bucket, u.end); err != nil {
			return fmt.Errorf("spill ids: %w", err)
		}
		u.end += int64(len(bucket))
		ends[i], u.buckets[i] = u.end, bucket[:0]
	}
	u.ends, u.held = append(u.ends, ends), 0
	return nil
}

// read returns all of a bucket, what was spilled first, in room, if there is enough
// of it.
func (u *uniques) read(bucket int, room []byte) ([]byte, error) {
	all := room[:0]
	begin := int64(0) // of a spill, then of the bucket in it
	for i := range u.ends {
		if bucket > 0 {
			begin = u.ends[i][bucket-1]
		}
		held, length := len(all), int(u.ends[i][bucket]-begin)
		all = slices.Grow(all, length)[:held+length]
		if _, err := u.spilled.ReadAt(all[held:], begin); err != nil {
			return nil, fmt.Errorf("read spilled ids: %w", err)
		}
		begin = u.ends[i][idBuckets-1]
	}
	return append(all, u.buckets[bucket]...), nil
}

// twice calls yield with every id that was used again, and where.
func (u *uniques) twice(yield func(kind idKind, first, again uint64)) error {
	var (
		bucket []byte
		firsts []uint64
		err    error
	)
	for i := range u.buckets {
		if bucket, err = u.read(i, bucket); err != nil {
			return err
		}
		// Their first bytes tell nearly all apart, and are sorted sooner.
		firsts = firsts[:0]
		for id := range slices.Chunk(bucket, idSize) {
			firsts = append(firsts, binary.BigEndian.Uint64(id))
		}
		slices.Sort(firsts)
		if len(slices.Compact(firsts)) < len(bucket)/idSize {
			again(bucket, yield)
		}
	}
	return nil
}

// again calls yield with every id of a bucket that was used again.
func again(bucket []byte, yield func(kind idKind, first, again uint64)) {
	ids := slices.SortedFunc(slices.Chunk(bucket, idSize), bytes.Compare)
	for j := 1; j < len(ids); j++ {
		if a, b := ids[j-1], ids[j]; bytes.Equal(a[:17], b[:17]) {
			yield(idKind(b[16]), binary.BigEndian.Uint64(a[17:]), binary.BigEndian.Uint64(b[17:]))
		}
	}
}

func (u *uniques) close() {
	if u.spilled != nil {
		_ = u.spilled.Close()
		_ = os.Remove(u.spilled.Name()) // only space is lost
	}
}
