package main

import (
	"errors"
	"os"
	"sync"
)

// logFile appends to a file. A full file is renamed to end in .1, replacing the previous
// file of that name, so there are at most two files. After a crash between the rename and
// the open, the file of the first name does not exist; openLogFile makes it.
type logFile struct {
	path string
	most int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLogFile(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, most: most}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write implements io.Writer, for whole lines.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(line)) > l.most && l.size > 0 {
		// The file is gone if it was deleted, or if an earlier open failed after the rename.
		if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		full := l.file
		if err := l.open(); err != nil {
			return 0, err
		}
		_ = full.Close() // its lines are written
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}
