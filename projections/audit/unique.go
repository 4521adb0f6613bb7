package audit

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// idKind is a kind of id. Ids must be unique within their kind.
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

// id is the kind of an id and the first half of its SHA-256.
type id [1 + 16]byte

const (
	idBytes   = len(id{}) + 8 // the id and its sequence
	idBuckets = 64
)

// uniques finds ids that were used twice. It writes ids to temporary files, one for each
// bucket of digests, so that memory holds one bucket at a time. A crash leaves the files
// behind; the system's cleanup of temporary files removes them.
type uniques struct {
	folder  string // empty until the first id is added
	files   [idBuckets]*os.File
	buckets [idBuckets]*bufio.Writer
	text    []byte // scratch space for the id that is being added
}

func (u *uniques) open() (err error) {
	if u.folder, err = os.MkdirTemp("", "ledger-audit-"); err != nil {
		return err
	}
	for i := range u.files {
		if u.files[i], err = os.Create(filepath.Join(u.folder, fmt.Sprint(i))); err != nil {
			return err
		}
		u.buckets[i] = bufio.NewWriter(u.files[i])
	}
	return nil
}

func (u *uniques) add(kind idKind, seq uint64, parts ...string) error {
	if u.folder == "" {
		if err := u.open(); err != nil {
			return fmt.Errorf("keep ids: %w", err)
		}
	}
	u.text = append(u.text[:0], byte(kind))
	for _, part := range parts {
		u.text = append(append(u.text, part...), 0)
	}
	sum := sha256.Sum256(u.text)
	record := append(append(u.text[:0], byte(kind)), sum[:16]...)
	record = binary.BigEndian.AppendUint64(record, seq)
	if _, err := u.buckets[sum[0]%idBuckets].Write(record); err != nil {
		return fmt.Errorf("keep ids: %w", err)
	}
	return nil
}

// twice calls yield for every reuse of an id, with the sequences of the first use and of
// the reuse.
func (u *uniques) twice(yield func(kind idKind, first, again uint64)) error {
	if u.folder == "" {
		return nil
	}
	for i, file := range u.files {
		if err := u.buckets[i].Flush(); err != nil {
			return fmt.Errorf("keep ids: %w", err)
		}
		records, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<62))
		if err != nil {
			return fmt.Errorf("read ids: %w", err)
		}
		firsts := make(map[id]uint64, len(records)/idBytes)
		for ; len(records) >= idBytes; records = records[idBytes:] {
			is, seq := id(records), binary.BigEndian.Uint64(records[len(id{}):])
			if first, again := firsts[is]; again {
				yield(idKind(is[0]), first, seq)
			} else {
				firsts[is] = seq
			}
		}
	}
	return nil
}

// close removes the files.
func (u *uniques) close() error {
	if u.folder == "" {
		return nil
	}
	var failed []error
	for _, file := range u.files {
		if file != nil {
			failed = append(failed, file.Close())
		}
	}
	return errors.Join(append(failed, os.RemoveAll(u.folder))...)
}
