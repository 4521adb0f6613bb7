package localnats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/minio/highwayhash"
)

// Blocks reads a stream that only grows out of the files in which a server keeps
// it. The server may be at work on them meanwhile, in this process or in another: a
// message that it has acknowledged is in its file, whole, and stays as it is. It is
// for whoever reads all of a log: to be sent a message costs five times as much.
//
// A message that was deleted may still be found. And the hash of a record does not
// cover its lengths. Where one was damaged, a header tells, which then does not begin
// or end as headers do; of a message that has none, its reader has to.
//
// # Layout
//
// A block is records, one after the other, as nats-server 2.15 writes them
// (writeMsgRecordLocked in filestore.go), neither compressed nor encrypted. Integers
// are little-endian.
//
//	offset  bytes
//	0       4      length of the record, all of it; the highest bit says that it has a header
//	4       8      sequence; either of the two highest bits says that it stands for a deletion
//	12      8      when it was stored, in nanoseconds since 1970
//	20      2      length of the subject
//	22      ...    subject
//	...     4      length of the header; it and the header are there where the length says so
//	...     ...    header, as it is sent
//	...     ...    payload
//	-8      8      HighwayHash-64 of bytes 4 to 20, the subject, the header and the payload
//
// The hash's key is the SHA-256 of the stream's name, "-", and the block's number.
type Blocks struct{ dir, stream string }

// ErrBlock says that a block holds what no server writes there: it is damaged.
var ErrBlock = errors.New("damaged block")

const (
	recordFixed     = 22 // what each record begins with
	recordHash      = highwayhash.Size64
	recordHasHeader = 1 << 31
	// longestRecord is more than any message makes: its header counts for MaxPayload.
	longestRecord = MaxPayload + 64<<10
	// blockChunk is how much is read at a time. It stays in a processor's cache
	// until it has been looked through.
	blockChunk = 256 << 10
)

// What a header begins and ends with (ADR-4 of NATS).
var headerBegin, headerEnd = []byte("NATS/1.0"), []byte("\r\n\r\n")

// OpenBlocks returns the blocks of a stream of the server that runs, or ran, on a
// folder (Config.Dir).
func OpenBlocks(dir, stream string) Blocks {
	return Blocks{blocksOf(filepath.Join(dir, storeName), stream), stream}
}

// Scan calls yield with the messages from one sequence to another, in order. It
// returns nil at the end and before the first one that it does not find, which may
// be deleted, or not yet there. What yield is given is worth nothing when it returns;
// the time is in nanoseconds since 1970. Scan returns yield's error as it is.
func (b Blocks) Scan(ctx context.Context, from, to uint64, yield func(seq uint64, time int64, subject, header, payload []byte) error) error {
	if from > to {
		return nil
	}
	numbers, err := blockNumbers(b.dir)
	if err != nil {
		return err
	}
	s := blockScan{next: from, to: to, yield: yield}
	for _, n := range numbers[b.find(numbers, from):] {
		begun := s.next
		if err := s.block(ctx, b, n); err != nil {
			return err
		}
		if s.next > to || s.next == begun { // what this block has not, a later one has not either
			return nil
		}
	}
	return nil
}

// find returns which of the blocks holds a sequence, if one does.
func (b Blocks) find(numbers []int, seq uint64) int {
	later, _ := slices.BinarySearchFunc(numbers, seq, func(n int, seq uint64) int {
		if first, err := b.first(n); err != nil || first > seq { // the newest may be empty
			return 1
		}
		return -1
	})
	return max(0, later-1)
}

// first returns the sequence of a block's first record.
func (b Blocks) first(n int) (uint64, error) {
	f, err := os.Open(blockPath(b.dir, n))
	if err != nil {
		return 0, err
	}
	defer f.Close() // it was only read
	var fixed [recordFixed]byte
	if _, err := f.ReadAt(fixed[:], 0); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(fixed[4:]), nil
}

// blockScan is a Scan under way.
type blockScan struct {
	next, to uint64
	yield    func(seq uint64, time int64, subject, header, payload []byte) error

	path string // of the block
	hash hash.Hash64
	sum  [recordHash]byte
	room []byte // for what is read at a time
}

// block yields what a block has of the messages that are due.
func (s *blockScan) block(ctx context.Context, b Blocks, n int) error {
	s.path = blockPath(b.dir, n)
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", b.stream, n))
	if s.hash, err = highwayhash.New64(key[:]); err != nil {
		return err
	}
	var rest []byte // of a record that goes on in the next chunk
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.room = append(s.room[:0], rest...)
		s.room = slices.Grow(s.room, max(blockChunk-len(rest), len(rest)))
		n, err := io.ReadFull(f, s.room[len(rest):cap(s.room)])
		ends := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ends {
			return err
		}
		var due bool
		rest, due, err = s.records(s.room[:len(rest)+n])
		if err != nil || !due || ends {
			return err
		}
	}
}

// records yields those of a chunk. It returns what remains of it, and whether the
// next message that is due may come after that.
func (s *blockScan) records(chunk []byte) (rest []byte, due bool, err error) {
	for len(chunk) >= recordFixed {
		flagged := binary.LittleEndian.Uint32(chunk)
		length := int(flagged &^ recordHasHeader)
		if length < recordFixed+recordHash || length > longestRecord {
			return nil, false, s.damaged("a record of %d bytes", length)
		}
		if len(chunk) < length {
			break
		}
		due, err := s.record(chunk[:length:length], flagged&recordHasHeader != 0)
		if err != nil || !due {
			return nil, false, err
		}
		chunk = chunk[length:]
	}
	return chunk, true, nil
}

func (s *blockScan) record(r []byte, hasHeader bool) (due bool, err error) {
	seq := binary.LittleEndian.Uint64(r[4:])
	if seq < s.next {
		return true, nil
	}
	if seq > s.next { // the one that is due was deleted
		return false, nil
	}
	subject, payload := split(r[recordFixed:len(r)-recordHash], int(binary.LittleEndian.Uint16(r[20:])))
	var header []byte
	if hasHeader {
		var length []byte
		if length, payload = split(payload, 4); len(length) == 4 {
			header, payload = split(payload, int(binary.LittleEndian.Uint32(length)))
		}
		if !bytes.HasPrefix(header, headerBegin) || !bytes.HasSuffix(header, headerEnd) {
			return false, s.damaged("sequence %d does not have its header", seq)
		}
	}
	s.hash.Reset()
	for _, part := range [...][]byte{r[4:20], subject, header, payload} {
		_, _ = s.hash.Write(part) // never fails
	}
	if !bytes.Equal(s.hash.Sum(s.sum[:0]), r[len(r)-recordHash:]) {
		return false, s.damaged("sequence %d does not have its hash", seq)
	}
	if err := s.yield(seq, int64(binary.LittleEndian.Uint64(r[12:])), subject, header, payload); err != nil {
		return false, err
	}
	s.next++
	return s.next <= s.to, nil
}

// split cuts b in two after n bytes, or where it ends.
func split(b []byte, n int) (before, after []byte) {
	n = min(n, len(b))
	return b[:n:n], b[n:]
}

func (s *blockScan) damaged(format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrBlock, s.path, fmt.Sprintf(format, args...))
}
