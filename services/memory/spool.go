package memory

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/semaphore"
)

// spool keeps an export on disk, encrypted under a key that is only in memory. Its file has no
// name, so a crash leaves nothing.
type spool struct {
	file   *os.File
	stream func() cipher.Stream // from the beginning
	to     cipher.StreamWriter
	room   *semaphore.Weighted // bytes of all spools
	held   int64               // of the room
}

func newSpool(room *semaphore.Weighted) (*spool, error) {
	file, err := os.CreateTemp("", "ledger-import-")
	if err != nil {
		return nil, fmt.Errorf("keep an export: %w", err)
	}
	s := &spool{file: file, room: room}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("keep an export: %w", err)
	}
	// The key encrypts only this file, so the counter may begin at zero.
	s.stream = func() cipher.Stream { return cipher.NewCTR(block, make([]byte, aes.BlockSize)) }
	s.to = cipher.StreamWriter{S: s.stream(), W: file}
	return s, nil
}

// hold counts bytes. ErrBusy: all spools together would hold too many.
func (s *spool) hold(bytes int64) error {
	if !s.room.TryAcquire(bytes) {
		return ErrBusy
	}
	s.held += bytes
	return nil
}

func (s *spool) Write(p []byte) (int, error) {
	if err := s.hold(int64(len(p))); err != nil {
		return 0, err
	}
	return s.to.Write(p)
}

// read returns what was written.
func (s *spool) read() (io.Reader, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("keep an export: %w", err)
	}
	return cipher.StreamReader{S: s.stream(), R: s.file}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // its bytes go with it
	s.room.Release(s.held)
}

// bounded reads an export, and refuses lines that are too long and too many.
type bounded struct {
	from      io.Reader
	line, all int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.all += n
	for part := range bytes.SplitAfterSeq(p[:n], []byte("\n")) {
		if b.line += len(part); b.line > maxImportLine+1 || int64(b.all) > MaxImport {
			return 0, ErrImportTooBig
		}
		if bytes.HasSuffix(part, []byte("\n")) {
			b.line = 0
		}
	}
	return n, err
}
