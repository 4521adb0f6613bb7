package localchain

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
)

//go:embed server/package-lock.json server/*.js
var files embed.FS

// Fetch brings what Start needs into the cache folder, if it is not there.
func Fetch(ctx context.Context, cfg Config) error {
	cfg.setDefaults()
	_, _, err := install(ctx, cfg)
	return err
}

// install finds or fetches Node and the modules, places the server's files beside the
// modules, and returns the paths of node and of server.js:
//
//	<cache>/chain-<hash of the lock file and platform>/node_modules
//	<cache>/chain-<hash>/server-<hash of the scripts>/server.js
//
// Versions live side by side, and nothing is changed in place.
func install(ctx context.Context, cfg Config) (program, server string, err error) {
	cache := npm.CacheFolder()
	modules, err := npm.Fetch(ctx, cache, npm.Set{Name: "chain", What: "the local chain", Lock: content("server/package-lock.json"), Finish: hasRuntime}, cfg.OnFetch)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	program, err = node.Program(ctx, cache, cfg.OnFetch)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	h := sha256.New()
	for _, name := range scripts() {
		body := content(name)
		fmt.Fprintf(h, "%s %d\n", name, len(body))
		h.Write(body)
	}
	folder := filepath.Join(modules, fmt.Sprintf("server-%x", h.Sum(nil)[:8]))
	server = filepath.Join(folder, "server.js")
	if exists(server) {
		return program, server, nil
	}
	if err := place(folder, modules); err != nil && !exists(server) {
		return "", "", err // of no faster process
	}
	return program, server, nil
}

// hasRuntime refuses a fetched folder that lacks the runtime's native module: the lock file
// pins it only for the platforms whose package the registry served when it was made.
func hasRuntime(folder string) error {
	found, err := filepath.Glob(filepath.Join(folder, "node_modules", "litesvm-*"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the chain's runtime is not pinned for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	return err
}

// place writes the server's scripts into a temporary folder and renames it to folder. A crash
// leaves the temporary folder, which is never used.
func place(folder, parent string) error {
	tmp, err := os.MkdirTemp(parent, "placing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, name := range scripts() {
		if err := os.WriteFile(filepath.Join(tmp, filepath.Base(name)), content(name), 0o644); err != nil {
			return err
		}
	}
	return os.Rename(tmp, folder)
}

// scripts returns the names of the server's embedded scripts.
func scripts() []string {
	names, err := fs.Glob(files, "server/*.js")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	return names
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
