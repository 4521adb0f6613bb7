package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"
)

// leastCompressed is the length in bytes from which an answer is compressed. A
// shorter answer takes one write and one round trip anyway.
const leastCompressed = answerBytes

// Compressed compresses the handler's long answers if the client accepts gzip. Use it
// only for routes whose answers hold no credential. If an answer holds both a secret and
// text that a caller chose, its compressed length reveals something about the secret
// (BREACH). A stream of such a route must not be an io.Closer: replacing it with the
// compressed stream would close it.
func (a *App) Compressed(handler fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		c.Vary(fiber.HeaderAcceptEncoding)
		if err := handler(c); err != nil {
			return err
		}
		response := c.Response()
		if response.StatusCode() != http.StatusOK || c.Method() == fiber.MethodHead || !c.Request().Header.IsHTTP11() ||
			!takesGzip(c.Request().Header.PeekAll(fiber.HeaderAcceptEncoding)) {
			return nil
		}
		if !response.IsBodyStream() {
			return compressWhole(c)
		}
		select {
		case a.compressing <- struct{}{}:
		default:
			return nil
		}
		body := newCompressor(response.BodyStream(), func() { <-a.compressing })
		response.Header.Set(fiber.HeaderContentEncoding, "gzip")
		return c.SendStream(body)
	}
}

func compressWhole(c *fiber.Ctx) error {
	response := c.Response()
	if len(response.Body()) < leastCompressed {
		return nil
	}
	body := newCompressor(bytes.NewReader(response.Body()), func() {})
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	response.Header.Set(fiber.HeaderContentEncoding, "gzip")
	response.SetBodyRaw(text)
	return nil
}

// compressor is a gzip stream that is built while it is read. It passes on each piece
// that it reads from its source at once, so that the start of a long list does not wait
// for the rest.
type compressor struct {
	source io.Reader
	*work
	done    bool
	release func()
}

// work holds a compressor's buffers and writer. The next compressor reuses it.
type work struct {
	piece []byte
	made  bytes.Buffer
	zip   *gzip.Writer
}

var works = sync.Pool{New: func() any {
	zip, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return &work{piece: make([]byte, 32<<10), zip: zip}
}}

func newCompressor(source io.Reader, release func()) *compressor {
	w := works.Get().(*work)
	w.made.Reset()
	w.zip.Reset(&w.made)
	return &compressor{source: source, work: w, release: release}
}

// Read implements io.Reader. If the source fails, the gzip stream gets no end.
func (z *compressor) Read(p []byte) (int, error) {
	for z.made.Len() == 0 {
		if z.done {
			return 0, io.EOF
		}
		n, err := z.source.Read(z.piece)
		_, _ = z.zip.Write(z.piece[:n]) // a bytes.Buffer takes everything
		switch {
		case errors.Is(err, io.EOF):
			z.done = true
			_ = z.zip.Close()
		case err != nil:
			return 0, err
		default:
			_ = z.zip.Flush()
		}
	}
	return z.made.Read(p)
}

// Close returns the work to the pool. The server calls it whether or not the answer was
// sent.
func (z *compressor) Close() error {
	if z.work == nil {
		return nil
	}
	works.Put(z.work)
	z.work = nil
	z.release()
	return nil
}

// takesGzip reads Accept-Encoding (RFC 9110, 12.5.3). It reports true for gzip, unless
// the client refuses gzip or prefers the plain text.
func takesGzip(headers [][]byte) bool {
	zipped, any, plain := -1.0, -1.0, -1.0 // weights; negative: not named
	for _, header := range headers {
		for part := range strings.SplitSeq(string(header), ",") {
			coding, weight := weighed(part)
			switch coding {
			case "gzip", "x-gzip":
				zipped = max(zipped, weight)
			case "*":
				any = max(any, weight)
			case "identity":
				plain = max(plain, weight)
			}
		}
	}
	if zipped < 0 {
		zipped = any
	}
	return zipped > 0 && zipped >= plain
}

// weighed splits a coding from its weight. An invalid weight is 0.
func weighed(part string) (coding string, weight float64) {
	coding, params, _ := strings.Cut(part, ";")
	coding = strings.ToLower(strings.TrimSpace(coding))
	for param := range strings.SplitSeq(params, ";") {
		name, value, given := strings.Cut(param, "=")
		if !given || !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return coding, 0
		}
		return coding, q
	}
	return coding, 1
}
