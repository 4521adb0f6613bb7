package localchain

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/npm"
)

// installPatience is how long one installation waits for another.
const installPatience = 10 * time.Minute

//go:embed server/package.json server/package-lock.json server/*.js
var files embed.FS

// install finds Node, installs the modules and the server's files in the cache folder
// if they are missing, and returns the paths of node and of server.js:
//
//	<cache>/modules-<hash of the lock file and platform>/node_modules
//	<cache>/modules-<hash>/server-<hash of the scripts>/server.js
//
// Versions live side by side, and nothing is changed in place.
func install(ctx context.Context, cfg Config) (node, server string, err error) {
	node, err = findNode(ctx)
	if err != nil {
		return "", "", err
	}
	cache, err := filepath.Abs(cfg.CacheDir)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", "", err
	}
	modules := filepath.Join(cache, "modules-"+digest("package.json", "package-lock.json"))
	scripts := filepath.Join(modules, "server-"+digest("*.js"))
	server = filepath.Join(scripts, "server.js")
	if exists(server) {
		return node, server, nil
	}
	lock, err := datadir.LockWithin(ctx, filepath.Join(cache, lockName), installPatience)
	if err != nil {
		return "", "", err
	}
	defer lock.Release()
	if !exists(modules) {
		if cfg.OnInstall != nil {
			cfg.OnInstall()
		}
		if err := installModules(ctx, cache, modules, cfg.Log); err != nil {
			return "", "", err
		}
	}
	if exists(server) {
		return node, server, nil
	}
	return node, server, place(scripts, modules, "*.js")
}

// findNode returns the path of a node that is new enough.
func findNode(ctx context.Context) (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", ErrNoNode
	}
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: node --version: %v", ErrNoNode, err)
	}
	version := strings.TrimSpace(string(out))
	if !newEnough(version) {
		return "", fmt.Errorf("%w: found %s", ErrNoNode, version)
	}
	return node, nil
}

// newEnough reports whether a version like v20.18.0 is at least 20.18.
func newEnough(version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > 20 || major == 20 && minor >= 18)
}

// installModules runs npm in a temporary folder and renames it into place. A crash
// leaves the temporary folder, which is never used.
func installModules(ctx context.Context, cache, modules string, log io.Writer) error {
	tmp, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := write(tmp, "package.json", "package-lock.json"); err != nil {
		return err
	}
	fmt.Fprintln(log, "installing the local chain's runtime (once)")
	err = npm.Install(ctx, tmp, log)
	if errors.Is(err, npm.ErrMissing) {
		return fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInstall, err)
	}
	return os.Rename(tmp, modules)
}

// place writes embedded files into a temporary folder and renames it to folder. A crash
// leaves the temporary folder, which is never used.
func place(folder, parent string, patterns ...string) error {
	tmp, err := os.MkdirTemp(parent, "placing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := write(tmp, patterns...); err != nil {
		return err
	}
	return os.Rename(tmp, folder)
}

func write(folder string, patterns ...string) error {
	for _, name := range names(patterns...) {
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), content(name), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// digest identifies a set of embedded files together with this platform.
func digest(patterns ...string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s/%s\n", runtime.GOOS, runtime.GOARCH)
	for _, name := range names(patterns...) {
		body := content(name)
		fmt.Fprintf(h, "%s %d\n", name, len(body))
		h.Write(body)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func names(patterns ...string) []string {
	var all []string
	for _, p := range patterns {
		found, err := fs.Glob(files, "server/"+p)
		if err != nil {
			panic(err) // the patterns are constants
		}
		all = append(all, found...)
	}
	return all
}

func content(name string) []byte {
	body, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the names come from the embedded folder itself
	}
	return body
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
