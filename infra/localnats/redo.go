package localnats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// redo is a file that holds the newest bytes of a stream's block files once
// more, until those are synced themselves.
//
// A block file grows with every message, so each fsync of one commits its new
// length and its new blocks to the file system's own journal besides the bytes.
// The redo file is made beforehand and written over and over, as the write-ahead
// logs of databases are: to sync what was written into it takes half to three
// quarters of the time.
//
// It has two halves. While one is filled, the blocks whose bytes the other one
// holds are synced, which gives that one free; so a half is never written over
// while it holds the only durable copy of anything. [restore] writes what both
// hold back into the blocks, before a server opens them.
//
// # Layout
//
// A half is records from its beginning on. A record begins at a multiple of
// 4,096 bytes, and no record shares such a page with another: bytes that were
// synced are not written again before their half is free. Integers are
// big-endian.
//
//	offset  bytes
//	0       8      "MLredo1\n"
//	8       8      the series: a random number, another one for each start
//	16      8      the turn: how many halves were begun in this series
//	24      4      which record of its turn this is, from 0 on
//	28      4      number of the block file
//	32      8      where in that file its bytes begin
//	40      4      how many there are
//	44      4      CRC-32C of the 44 bytes before, and the bytes
//	48      ...    the bytes, and zeros up to the end of the page
//
// What a half holds ends at the first record that is not the next one of the
// same series and turn. That is one that a power cut interrupted, which nobody
// was told about, or what is left of an earlier turn.
type redo struct {
	file   *os.File
	half   int64 // length of a half
	series uint64

	turn    uint64
	at      int64  // where in its half the next record begins
	ordinal uint32 // and which one that is
	pending []byte // records that are made and not yet written
}

const (
	redoMagic  = "MLredo1\n"
	redoHeader = 48
	redoPage   = 4096
	// redoHalf bounds what a start has to write back, and how much a sync of the
	// blocks has to do at once beside the appends.
	redoHalf = 4 << 20
	// redoRound is the longest run of bytes that is worth writing twice. What is
	// longer is synced in its own file.
	redoRound = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrRedo says that a redo file and the blocks do not belong together.
var ErrRedo = errors.New("the redo file does not fit the stream's files")

// errLong says that there is more to sync than a redo file is for.
var errLong = errors.New("too long for the redo file")

// openRedo opens a redo file that holds nothing, and makes it if need be; sync
// makes its name durable. A crash while it is made leaves zeros, which are no
// records.
func openRedo(path string, half int64, sync func(path string) error) (*redo, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|openSynced, 0o600)
	if err != nil {
		return nil, err
	}
	r := &redo{file: f, half: half}
	if err := r.lay(path, sync); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// lay writes the whole file, so that later writes find their place on the disk
// made, and its name.
func (r *redo) lay(path string, sync func(path string) error) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != 2*r.half {
		if err := r.file.Truncate(0); err != nil {
			return err
		}
		for _, at := range []int64{0, r.half} {
			if _, err := r.file.WriteAt(make([]byte, r.half), at); err != nil {
				return err
			}
		}
	}
	if err := r.forget(); err != nil {
		return err
	}
	if err := sync(filepath.Dir(path)); err != nil {
		return err
	}
	return sync(filepath.Dir(filepath.Dir(path)))
}

// forget makes both halves hold nothing, durably, and begins another series. It
// is for when all blocks are synced. A crash leaves one half or both, which are
// as good as none.
func (r *redo) forget() error {
	r.series, r.turn, r.at, r.ordinal = rand.Uint64(), 1, 0, 0
	for _, at := range []int64{0, r.half} {
		if _, err := r.file.WriteAt(make([]byte, redoPage), at); err != nil {
			return err
		}
	}
	return syncWritten(r.file)
}

// take makes a record of what a block file has from an offset on, as far as it
// goes now, and returns how many bytes that is. Nothing makes no record. It
// returns errLong where the records would not fit a round.
//
// The server writes to the file at the same time. It appends, and whatever a
// file system shows of a file's length it has the bytes of; so what is read here
// is what the server wrote, if perhaps not all of it.
func (r *redo) take(block int, from io.ReaderAt, offset int64) (int, error) {
	begin, limit := len(r.pending), int(min(redoRound, r.half))
	if begin+redoPage > limit {
		return 0, errLong
	}
	made := slices.Grow(r.pending, limit-begin)[:limit]
	n, err := from.ReadAt(made[begin+redoHeader:], offset)
	switch {
	case err == nil:
		return 0, errLong
	case !errors.Is(err, io.EOF):
		return 0, err
	case n == 0:
		return 0, nil
	}
	header, end := made[begin:], begin+redoHeader+n
	copy(header, redoMagic)
	binary.BigEndian.PutUint64(header[8:], r.series)
	binary.BigEndian.PutUint32(header[28:], uint32(block))
	binary.BigEndian.PutUint64(header[32:], uint64(offset))
	binary.BigEndian.PutUint32(header[40:], uint32(n))
	r.pending = made[:paged(end)]
	clear(r.pending[end:])
	return n, nil
}

// paged is a length with what is missing to whole pages.
func paged(n int) int { return (n + redoPage - 1) &^ (redoPage - 1) }

// drop forgets what is pending.
func (r *redo) drop() { r.pending = r.pending[:0] }

// fits reports whether the half has room for what is pending.
func (r *redo) fits() bool { return r.at+int64(len(r.pending)) <= r.half }

// next begins the other half, which has to be free.
func (r *redo) next() {
	r.turn++
	r.at, r.ordinal = 0, 0
}

// write writes what is pending into the half, where it fits, durably. After an
// error the half's end is not known: nothing more may be written.
func (r *redo) write() error {
	for rest := r.pending; len(rest) > 0; {
		record := rest[:redoHeader+int(binary.BigEndian.Uint32(rest[40:]))]
		binary.BigEndian.PutUint64(record[16:], r.turn)
		binary.BigEndian.PutUint32(record[24:], r.ordinal)
		binary.BigEndian.PutUint32(record[44:], checksum(record))
		r.ordinal++
		rest = rest[paged(len(record)):]
	}
	begin := int64(1-r.turn%2) * r.half
	if _, err := r.file.WriteAt(r.pending, begin+r.at); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	if err := syncWritten(r.file); err != nil {
		return err
	}
	r.at += int64(len(r.pending))
	r.drop()
	return nil
}

func checksum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[:44], castagnoli), castagnoli, record[redoHeader:])
}

// redone is a record that was read.
type redone struct {
	series, turn uint64
	ordinal      uint32
	block        int
	offset       int64
	data         []byte
}

// readRedo returns what a redo file holds, in the order in which it was written.
func readRedo(data []byte) []redone {
	first, second := readHalf(data[:len(data)/2]), readHalf(data[len(data)/2:])
	if len(first) > 0 && len(second) > 0 && second[0].turn < first[0].turn {
		first, second = second, first
	}
	return append(first, second...)
}

func readHalf(data []byte) (records []redone) {
	for {
		r, length := readRecord(data)
		if length == 0 || int(r.ordinal) != len(records) {
			return records
		}
		if len(records) > 0 && (r.series != records[0].series || r.turn != records[0].turn) {
			return records
		}
		records = append(records, r)
		data = data[min(len(data), paged(length)):]
	}
}

// readRecord returns the record that data begins with, and its length, 0 where
// there is none.
func readRecord(data []byte) (r redone, length int) {
	if len(data) < redoHeader || string(data[:len(redoMagic)]) != redoMagic {
		return redone{}, 0
	}
	n := binary.BigEndian.Uint32(data[40:])
	if uint64(n) > uint64(len(data)-redoHeader) {
		return redone{}, 0
	}
	length = redoHeader + int(n)
	if binary.BigEndian.Uint32(data[44:]) != checksum(data[:length]) {
		return redone{}, 0
	}
	return redone{
		series:  binary.BigEndian.Uint64(data[8:]),
		turn:    binary.BigEndian.Uint64(data[16:]),
		ordinal: binary.BigEndian.Uint32(data[24:]),
		block:   int(binary.BigEndian.Uint32(data[28:])),
		offset:  int64(binary.BigEndian.Uint64(data[32:])),
		data:    data[redoHeader:length],
	}, length
}

// restoreAll restores every stream that has a redo file, and empties those.
func restoreAll(dir, store string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if err := restore(path, blocksOf(store, e.Name()), syncFile); err != nil {
			return err
		}
		// Now, since the server may give other bytes to the places that an
		// unfinished message had.
		r, err := openRedo(path, redoHalf, syncFile)
		if err != nil {
			return err
		}
		if err := r.file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// restore brings the blocks in a folder to what a redo file holds, and has sync
// make them durable. It is for before the server opens them. After a power cut that puts back
// what the disk had not got yet; after a kill the blocks have it all, and are
// written the same bytes. Interrupted, it is done again from the beginning.
func restore(path, blocks string, sync func(path string) error) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	open := map[int]*os.File{}
	defer func() {
		for _, f := range open {
			f.Close() // what was written is synced, or not of importance
		}
	}()
	for _, r := range readRedo(data) {
		f := open[r.block]
		if f == nil {
			if f, err = openBlock(blockPath(blocks, r.block), r.offset); err != nil {
				return err
			}
			open[r.block] = f
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if r.offset > info.Size() {
			return fmt.Errorf("%w: %s continues %s at %d, which has %d bytes", ErrRedo, path, f.Name(), r.offset, info.Size())
		}
		if _, err := f.WriteAt(r.data, r.offset); err != nil {
			return err
		}
	}
	for block := range open {
		if err := sync(blockPath(blocks, block)); err != nil {
			return err
		}
	}
	if len(open) == 0 {
		return nil
	}
	return sync(blocks)
}

// openBlock opens a block file for writing. One that begins in the redo file may
// not have reached the disk at all.
func openBlock(path string, offset int64) (*os.File, error) {
	flags := os.O_RDWR
	if offset == 0 {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o640) // as the server makes them
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrRedo, err)
	}
	return f, err
}
