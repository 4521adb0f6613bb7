package localpostgres

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ErrUnreachable says that, as root, no folder was found that the server's
// unprivileged user can reach.
var ErrUnreachable = errors.New("no place for the database that an unprivileged user can reach")

// account is the unprivileged user that the server runs as. A nil account means that the
// server runs as our own user, which is the case unless we are root.
type account struct {
	uid, gid uint32
	name     string
}

// unprivileged picks the account for a fresh cluster.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &account{uid: uint32(uid), gid: uint32(gid), name: name}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and neither user postgres nor user nobody exists; create one, or set DATABASE_URL")
}

// ownerOf picks the account for an existing cluster: its owner.
func ownerOf(cluster string) (*account, error) {
	info, err := os.Stat(cluster)
	if err != nil {
		return nil, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	euid := os.Geteuid()
	switch {
	case stat.Uid == 0:
		return nil, fmt.Errorf("the database in %s belongs to root, as which PostgreSQL does not run; chown it", cluster)
	case euid == 0:
		return &account{uid: stat.Uid, gid: stat.Gid, name: strconv.Itoa(int(stat.Uid))}, nil
	case int(stat.Uid) != euid:
		return nil, fmt.Errorf("the database in %s belongs to user %d; start as that user or as root", cluster, stat.Uid)
	}
	return nil, nil
}

// attr makes a child run as the account, without our other groups.
func (a *account) attr() *syscall.SysProcAttr {
	if a == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
}

// give makes the account the owner of a file or folder.
func (a *account) give(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// reaches reports whether the account may pass through every folder above path. It looks
// at mode bits only. Access lists and the like can make it report false too often, or can
// make initdb fail with the system's own message.
func (a *account) reaches(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		if !a.passes(dir) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (a *account) passes(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	stat := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// open lets the account pass through a folder of ours, by changing the folder's
// group. It refuses if the folder's present group has any access, because that
// group would lose it.
func (a *account) open(dir string) error {
	if a.passes(dir) {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o070 != 0 {
		return fmt.Errorf("%s is shared with another group", dir)
	}
	if err := os.Chown(dir, -1, int(a.gid)); err != nil {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o010)
}
