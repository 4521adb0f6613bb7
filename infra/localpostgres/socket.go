package localpostgres

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// maxSocketPath is below what both Linux (107) and macOS (103) allow.
const maxSocketPath = 100

// defaultPort only names the socket file; nothing listens on it.
const defaultPort = 5432

func socketFile(dir string, port int) string {
	return filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", port))
}

// socketDir makes the private folder for the socket. The folder is in the home if its path
// is short enough and has no comma: in a URL a comma separates hosts. Otherwise it is in
// the temporary folder. A file keeps that folder's name, so that a restart has the same URL.
func socketDir(p place) (string, error) {
	dir := filepath.Join(p.home, socketName)
	if len(socketFile(dir, 65535)) <= maxSocketPath && !strings.Contains(dir, ",") {
		return dir, privateDir(p.who, dir)
	}
	note := filepath.Join(p.dir, sockdirName)
	if old, err := os.ReadFile(note); err == nil {
		dir := strings.TrimSpace(string(old))
		if filepath.IsAbs(dir) && privateDir(p.who, dir) == nil {
			return dir, nil
		}
		// Another user may have taken that name: make another folder.
	}
	dir, err := os.MkdirTemp(shortTemp(), "ledger-pg-")
	if err != nil {
		return "", fmt.Errorf("socket folder: %w", err)
	}
	if err := privateDir(p.who, dir); err != nil {
		return "", err
	}
	return dir, datadir.WriteFile(note, []byte(dir+"\n"), 0o600)
}

// shortTemp avoids macOS's long per-user temporary folder.
func shortTemp() string {
	if len(os.TempDir()) <= 40 {
		return os.TempDir()
	}
	return "/tmp"
}

// privateDir makes a folder that only the server's user can enter. An existing folder
// must be private in the same way: its parent may be writable by all users, so a stranger
// could have put a link or a folder there.
func privateDir(who *account, dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("socket folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("socket folder: %w", err)
	}
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	mine := uid == os.Geteuid() || who != nil && uid == int(who.uid)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !mine {
		return fmt.Errorf("socket folder: %s is not a private folder of ours", dir)
	}
	return who.give(dir)
}

// freePort asks the system for a free port. Another process may take it before the
// server does. Then the server ends at once and the start is tried again.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
