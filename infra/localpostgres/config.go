package localpostgres

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/memory-ledger/ledger/infra/npm"
)

// DatabaseName is the database that Start creates, and the role that owns it.
const DatabaseName = "ledger"

// superuser owns the cluster. Only the Unix socket lets it in.
const superuser = "postgres"

const (
	defaultSharedBuffers = "64MB"
)

// Config says how to run a server. Only Dir is required.
type Config struct {
	// Dir holds everything that the server keeps, unless we are root; see the package. It
	// is created if need be.
	Dir string
	// TCP adds a listener on a free port of 127.0.0.1, guarded by a generated
	// password, and makes URL use that listener. The Unix socket always exists.
	TCP bool
	// AsyncCommit turns synchronous_commit off: a crash may lose the commits of the
	// last fraction of a second. It loses whole commits only, never the database.
	AsyncCommit bool
	// NoSync turns fsync off. A power cut may then destroy the cluster, while a
	// killed server still loses nothing. It is for tests that cut no power.
	NoSync bool
	// MaxConnections defaults to 100, SharedBuffers to 64MB.
	MaxConnections int
	SharedBuffers  string
	// Settings are further postgresql.conf settings, and win over the above.
	Settings map[string]string
	// OnFetch is told the progress where programs are fetched; default none.
	OnFetch func(npm.Progress)
	// Logger gets the server's own lines at debug level. Default: slog.Default.
	Logger *slog.Logger
}

func (c *Config) setDefaults() {
	if c.MaxConnections == 0 {
		c.MaxConnections = 100
	}
	if c.SharedBuffers == "" {
		c.SharedBuffers = defaultSharedBuffers
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// normalise fills in defaults, and makes the path absolute.
func (c *Config) normalise() (err error) {
	if c.Dir == "" {
		return errors.New("localpostgres: Config.Dir is empty")
	}
	c.setDefaults()
	c.Dir, err = filepath.Abs(c.Dir)
	return err
}

// settings returns the settings for the command line. So the cluster's own files stay
// as initdb wrote them, and keep nothing from an earlier run.
func (c *Config) settings(socketDir string, port int) map[string]string {
	s := map[string]string{
		"unix_socket_directories": socketDir,
		"unix_socket_permissions": "0700",
		"listen_addresses":        "",
		"max_connections":         fmt.Sprint(c.MaxConnections),
		"shared_buffers":          c.SharedBuffers,
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		// A failed statement may contain user content, which must not be logged.
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
		"password_encryption":     "scram-sha-256",
		"fsync":                   onOff(!c.NoSync),
		"full_page_writes":        onOff(!c.NoSync),
		"synchronous_commit":      onOff(!c.AsyncCommit),
	}
	if port != 0 {
		s["listen_addresses"] = "127.0.0.1"
		s["port"] = fmt.Sprint(port)
	}
	for k, v := range c.Settings {
		s[k] = v
	}
	return s
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
