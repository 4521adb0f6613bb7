package npm

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// fetch downloads the package's archive into a file of root, compares it with the
// integrity, and only then unpacks it.
func (p pkg) fetch(ctx context.Context, client *http.Client, registry *url.URL, root *os.Root, m *meter) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, registry.JoinPath(p.tarball()).String(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry answers %s", response.Status)
	}
	m.expect(response.ContentLength)
	if err := root.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	archive, err := root.Create(p.folder + ".tgz")
	if err != nil {
		return err
	}
	defer root.Remove(p.folder + ".tgz")
	defer archive.Close()
	hash := sha512.New()
	if _, err := io.Copy(io.MultiWriter(archive, hash, m), response.Body); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != p.integrity {
		return fmt.Errorf("the registry sent other bytes: integrity %s, the lock file has %s", got, p.integrity)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	into, err := root.OpenRoot(p.folder)
	if err != nil {
		return err
	}
	defer into.Close()
	return unpack(archive, into)
}

// unpack writes the files of an npm archive into a folder, without their first path
// element, which is "package" in most archives. No file leads out of the folder: os.Root
// refuses that.
func unpack(archive io.Reader, into *os.Root) error {
	plain, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue // npm packages hold no links, and folders come with their files
		}
		_, name, ok := strings.Cut(path.Clean(header.Name), "/")
		if !ok {
			continue
		}
		if err := write(into, filepath.FromSlash(name), files, mode(header)); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
}

// mode is 0755 for programs and 0644 for all else, whatever the archive or the umask says:
// the files are public, and another user may have to run them.
func mode(header *tar.Header) fs.FileMode {
	if header.FileInfo().Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func write(into *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	if err := into.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Chmod(mode)
	}
	return errors.Join(err, file.Close())
}
