package localpostgres

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the unprivileged user that the server runs as. A nil account means that the
// server runs as our own user, which is the case unless we are root.
type account struct {
	uid, gid uint32
	name     string
}

// unprivileged picks the account.
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

// reaches reports whether the account may pass through every folder above path, by the
// folders' mode bits.
func (a *account) reaches(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 && info.Sys().(*syscall.Stat_t).Uid != a.uid {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
