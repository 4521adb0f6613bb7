package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// ErrNotRunning says that no instance runs on a data folder.
var ErrNotRunning = errors.New("no local run in this data folder")

// Run says where the servers of a local run are. NATS_URL and DATABASE_URL may
// carry passwords; the file that holds them has mode 0600.
type Run struct {
	PID          int    `json:"pid"`
	NATSURL      string `json:"NATS_URL,omitempty"`
	NATSReadURL  string `json:"NATS_READ_URL,omitempty"` // of a user who may only read the log
	DatabaseURL  string `json:"DATABASE_URL,omitempty"`
	SolanaRPCURL string `json:"SOLANA_RPC_URL,omitempty"`
	// These fields are needed to look at the commitments: the program, and the file
	// of the key that commits.
	CommitmentProgramID string `json:"COMMITMENT_PROGRAM_ID,omitempty"`
	AuthorityKeypair    string `json:"AUTHORITY_KEYPAIR,omitempty"`
	CoreURL             string `json:"CORE_URL,omitempty"`
	ExtensionURL        string `json:"EXTENSION_URL,omitempty"`
}

// Serves reports whether a NATS_URL is of this run's log server, for whichever user.
func (r *Run) Serves(natsURL string) bool {
	mine, err := url.Parse(r.NATSURL)
	theirs, otherErr := url.Parse(natsURL)
	return err == nil && otherErr == nil && theirs.Host == mine.Host
}

// WriteRun notes that the run is up. Call it after everything has started. It fills in
// the pid. A crash afterwards leaves a note that LoadRun recognizes as stale and the
// next Open removes.
func (d *Dir) WriteRun(r Run) error {
	r.PID = os.Getpid()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("run note: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return WriteFile(filepath.Join(d.path, runName), append(data, '\n'), 0o600)
}

// ClearRun removes the note; call it before the servers stop.
func (d *Dir) ClearRun() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := os.Remove(filepath.Join(d.path, runName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("run note: %w", err)
	}
	return nil
}

// LoadRun finds the run that is up on the data folder at path, for a command beside that
// run. It returns ErrNotRunning if there is none. A run that is still starting does not
// count, nor does a killed run that left its note behind.
func LoadRun(path string) (Run, error) {
	held, err := Held(filepath.Join(path, lockName))
	if err != nil {
		return Run{}, err
	}
	if !held {
		return Run{}, fmt.Errorf("%s: %w", path, ErrNotRunning)
	}
	data, err := os.ReadFile(filepath.Join(path, runName))
	if errors.Is(err, os.ErrNotExist) {
		return Run{}, fmt.Errorf("%s: %w (it is starting or stopping)", path, ErrNotRunning)
	}
	if err != nil {
		return Run{}, fmt.Errorf("run note: %w", err)
	}
	var r Run
	if err := json.Unmarshal(data, &r); err != nil {
		return Run{}, fmt.Errorf("run note %s: %w", filepath.Join(path, runName), err)
	}
	return r, nil
}
