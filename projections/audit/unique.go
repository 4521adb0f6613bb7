package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
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

// uniques finds ids that were used twice. Ids are cut down to 128 bits of their
// SHA-256 and sorted into buckets by the first byte; beyond a bound the buckets
// go to files in a temporary folder, so memory does not grow with the log.
type uniques struct {
	buckets [idBuckets][]byte
	held    int
	dir     string // empty until something was spilled
}

func (u *uniques) add(kind idKind, seq uint64, parts ...string) error {
	h := sha256.New()
	h.Write([]byte{byte(kind)})
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	b := &u.buckets[sum[0]]
	*b = append(*b, sum[:16]...)
	*b = append(*b, byte(kind))
	*b = binary.BigEndian.AppendUint64(*b, seq)
	if u.held++; u.held >= idInMemory {
		return u.spill()
	}
	return nil
}

// spill appends every bucket to its file. A crash leaves the folder to the
// system's cleaning of temporary files.
func (u *uniques) spill() error {
	if u.dir == "" {
		dir, err := os.MkdirTemp("", "ledger-audit-")
		if err != nil {
			return fmt.Errorf("spill ids: %w", err)
		}
		u.dir = dir
	}
	for i := range u.buckets {
		file, err := os.OpenFile(u.file(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("spill ids: %w", err)
		}
		_, err = file.Write(u.buckets[i])
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("spill ids: %w", err)
		}
		u.buckets[i] = u.buckets[i][:0]
	}
	u.held = 0
	return nil
}

func (u *uniques) file(bucket int) string {
	return filepath.Join(u.dir, fmt.Sprintf("%02x", bucket))
}

// twice calls yield with every id that was used again, and where.
func (u *uniques) twice(yield func(kind idKind, first, again uint64)) error {
	for i := range u.buckets {
		bucket := u.buckets[i]
		if u.dir != "" {
			spilled, err := os.ReadFile(u.file(i))
			if err != nil {
				return fmt.Errorf("read spilled ids: %w", err)
			}
			bucket = append(spilled, bucket...)
		}
		ids := make([][]byte, 0, len(bucket)/idSize)
		for chunk := range slices.Chunk(bucket, idSize) {
			ids = append(ids, chunk)
		}
		slices.SortFunc(ids, bytes.Compare)
		for j := 1; j < len(ids); j++ {
			if bytes.Equal(ids[j-1][:17], ids[j][:17]) {
				yield(idKind(ids[j][16]), binary.BigEndian.Uint64(ids[j-1][17:]), binary.BigEndian.Uint64(ids[j][17:]))
			}
		}
	}
	return nil
}

func (u *uniques) close() {
	if u.dir != "" {
		_ = os.RemoveAll(u.dir) // only space is lost
	}
}
