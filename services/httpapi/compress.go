package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"
	"github.com/valyala/fasthttp"
)

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
			c.Get(fiber.HeaderAcceptEncoding) == "" || c.AcceptsEncodings("gzip", "identity") != "gzip" {
			return nil
		}
		if !response.IsBodyStream() {
			// A shorter answer takes one write and one round trip anyway.
			if body := response.Body(); len(body) >= answerBytes {
				response.SetBodyRaw(fasthttp.AppendGzipBytesLevel(nil, body, fasthttp.CompressBestSpeed))
				response.Header.Set(fiber.HeaderContentEncoding, "gzip")
			}
			return nil
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

// compressor is a gzip stream that is built while it is read. It passes on each piece
// that it reads from its source at once, so that the start of a long list does not wait
// for the rest.
type compressor struct {
	source  io.Reader
	piece   []byte
	made    bytes.Buffer
	zip     *gzip.Writer
	done    bool
	release func()
}

func newCompressor(source io.Reader, release func()) *compressor {
	z := &compressor{source: source, piece: make([]byte, 32<<10), release: sync.OnceFunc(release)}
	z.zip, _ = gzip.NewWriterLevel(&z.made, gzip.BestSpeed) // fails for an unknown level
	return z
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

// Close makes room for another stream. The server calls it whether or not the answer was
// sent.
func (z *compressor) Close() error {
	z.release()
	return nil
}
