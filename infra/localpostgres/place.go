package localpostgres

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/memory-ledger/ledger/infra/datadir"
)

const lockName = "lock"

// place says where a server's files are and which user the server runs as.
type place struct {
	home    string // holds the cluster
	sockets string // holds the Unix socket
	who     *account
}

// cluster returns the folder of the server's own files. Each major version has its own.
func (p place) cluster(inst installation) string {
	return filepath.Join(p.home, fmt.Sprintf("cluster-%d", inst.major))
}

// findPlace decides where the cluster of dir lives, and makes the folders. As root that is
// not dir, which the server's user may not reach, but a folder of that user.
func findPlace(dir string) (place, error) {
	who, err := unprivileged()
	p := place{who: who}
	if err == nil {
		p.home, err = Home(dir)
	}
	if err == nil && who != nil {
		err = privateDir(who, p.home)
	}
	if err != nil {
		return p, err
	}
	p.sockets = socketsOf(p.home)
	return p, privateDir(who, p.sockets)
}

// socketsOf returns the socket's folder. In a URL a comma separates hosts.
func socketsOf(home string) string {
	sockets := filepath.Join(home, "sock")
	// Linux allows 107 bytes, macOS 103.
	if len(filepath.Join(sockets, ".s.PGSQL.65535")) > 100 || strings.Contains(sockets, ",") {
		return apart("/tmp", home)
	}
	return sockets
}

// Home returns the folder that holds the cluster of dir: dir or, as root, a folder that
// stands for it. The name of that folder also depends on a random file in dir: a folder that
// was deleted and made again has another log, and a copy is not the same place.
func Home(dir string) (string, error) {
	if os.Geteuid() != 0 {
		return dir, nil
	}
	id := filepath.Join(dir, "id")
	random, err := os.ReadFile(id)
	if errors.Is(err, os.ErrNotExist) {
		random = []byte(rand.Text())
		err = datadir.WriteFile(id, random, 0o600)
	}
	return apart("/var/tmp", dir+string(random)), err
}

// apart names a folder under another one. The name is the same for the same text, so that a
// restart finds the database, and has the same URL.
func apart(under, text string) string {
	sum := sha256.Sum256([]byte(text))
	return filepath.Join(under, fmt.Sprintf("ledger-pg-%x", sum[:8]))
}

// privateDir makes a folder that only the server's user can enter. An existing folder
// must be private in the same way: its parent may be writable by all users, so a stranger
// could have put a link or a folder there.
func privateDir(who *account, dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("folder of the database: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("folder of the database: %w", err)
	}
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	mine := uid == os.Geteuid() || who != nil && uid == int(who.uid)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !mine {
		return fmt.Errorf("folder of the database: %s is not a private folder of ours", dir)
	}
	return who.give(dir)
}
