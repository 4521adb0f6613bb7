// Package datadir is the data folder of a local run: who may use it, the
// secrets it generates, and the note by which other commands find its servers.
//
// Layout:
//
//	ledger.lock   flock(2)ed by the running instance, holds its pid
//	secrets/NAME  one generated secret each, base64, mode 0600
//	run.json      where the servers of the running instance are, mode 0600
//	run.log       the log of the runs, mode 0600; a start moves a large one to run.log.1
//
// The lock, not the presence of a file, says whether an instance runs: the
// kernel releases the lock when the process ends, for whatever reason. So a run.json
// left by a killed run is recognized as stale, and nothing has to be cleaned by hand.
package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const (
	lockName    = "ledger.lock"
	secretsName = "secrets"
	runName     = "run.json"
)

// Dir is an open, locked data folder.
type Dir struct {
	path string
	lock *FileLock
}

// Open creates the folder at path if need be (mode 0700) and takes its lock.
// If another instance uses the folder, the error matches ErrLocked.
// Open removes the unfinished files of an earlier, killed run.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := MakeFolder(path); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := Lock(filepath.Join(path, lockName))
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder %s: %w", path, err), lock.Release())
	}
	return d, nil
}

// prepare runs under the lock. A crash in prepare leaves a folder that the next
// Open completes in the same way.
func (d *Dir) prepare() error {
	if _, err := d.Sub(secretsName); err != nil {
		return err
	}
	// A secret is only as durable as the names of the folders that lead to it.
	if err := SyncDir(d.path); err != nil {
		return err
	}
	return errors.Join(d.clearRun(), removeUnfinished(d.path), removeUnfinished(filepath.Join(d.path, secretsName)))
}

// Path is the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// Sub returns the path of a folder in the data folder, creating it (mode 0700).
func (d *Dir) Sub(name string) (string, error) {
	path := filepath.Join(d.path, name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return path, nil
}

// Close removes the run note and releases the folder.
func (d *Dir) Close() error {
	return errors.Join(d.clearRun(), d.lock.Release())
}

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
	return WriteFile(filepath.Join(d.path, runName), append(data, '\n'), 0o600)
}

// clearRun removes the note, if there is one.
func (d *Dir) clearRun() error {
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

// ErrNoSecret says that a secret was never generated in this folder.
var ErrNoSecret = errors.New("no such secret")

// Secret returns the secret of that name, n bytes long, generating it on first
// use. A fresh secret is on the disk before it is returned, so that nothing is
// ever sealed under a key that a power cut can take away.
//
// A malformed file, or one of another length, is an error and is never replaced:
// everything that it protects would be lost for good.
func (d *Dir) Secret(name string, n int) ([]byte, error) {
	secret, err := LoadSecret(d.path, name, n)
	if !errors.Is(err, ErrNoSecret) {
		return secret, err
	}
	secret = make([]byte, n)
	rand.Read(secret) // never fails: it ends the program instead
	text := base64.StdEncoding.EncodeToString(secret) + "\n"
	if err := WriteFile(filepath.Join(d.path, secretsName, name), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	return secret, nil
}

// LoadSecret reads a secret of the data folder at path without its lock, as a
// command beside the running instance does. It returns ErrNoSecret if there is none.
func LoadSecret(path, name string, n int) ([]byte, error) {
	file := filepath.Join(path, secretsName, name)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("secret %s: %w", name, ErrNoSecret)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	// The decoder's own error would quote a byte of the secret; leave it out.
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != n {
		return nil, fmt.Errorf("secret %s: %s does not hold %d bytes of base64; put the right file back", name, file, n)
	}
	return secret, nil
}
