package httpapi

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sync/semaphore"
)

// TestBodiesAtOnceAreBounded: a body beyond the bound is refused until there is room
// again. Public routes and the other routes have separate bounds.
func TestBodiesAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 64 << 10
	app := BareApp()
	app.bodies = bodies{semaphore.NewWeighted(bound), semaphore.NewWeighted(bound)}
	goOn := make(chan struct{})
	begun := make(chan struct{}, 1)
	app.Post("/holds", func(c *fiber.Ctx) error {
		_, err := Body(c)
		begun <- struct{}{}
		<-goOn
		return err
	})
	app.Post("/reads", func(c *fiber.Ctx) error { _, err := Body(c); return err })
	app.Post("/public", func(c *fiber.Ctx) error { return DecodeSignIn(c, &struct{}{}) })
	addr := Serve(t, app)
	post := func(path string) *bufio.Reader {
		conn := Dial(t, addr)
		body := `{"x":"` + strings.Repeat("x", 40<<10) + `"}`
		must(t, errorOf(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)))
		return bufio.NewReader(conn)
	}
	status := func(answers *bufio.Reader, want int) {
		t.Helper()
		answer, err := http.ReadResponse(answers, nil)
		must(t, err)
		if answer.StatusCode != want || (want == http.StatusServiceUnavailable) != (answer.Header.Get("Retry-After") != "") {
			t.Errorf("status %d, want %d; %v", answer.StatusCode, want, answer.Header)
		}
	}
	holds := post("/holds")
	<-begun
	status(post("/reads"), http.StatusServiceUnavailable)
	status(post("/public"), http.StatusOK)
	close(goOn)
	status(holds, http.StatusOK)
	if !app.bodies.all.TryAcquire(bound) || !app.bodies.public.TryAcquire(bound) {
		t.Error("something is still held")
	}
	app.bodies.all.Release(bound)
	status(post("/reads"), http.StatusOK)
}
