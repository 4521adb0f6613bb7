package localpostgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// Remove deletes the database of dir, and dir itself. It refuses (datadir.ErrLocked) while
// a server runs there. A crash during Remove leaves some of the files, which are no
// database any more. A second Remove deletes them.
func Remove(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := datadir.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("remove database: %w", err)
	}
	home, err := Home(dir)
	if err == nil {
		err = os.RemoveAll(home)
	}
	return errors.Join(err, os.RemoveAll(dir), lock.Release())
}
