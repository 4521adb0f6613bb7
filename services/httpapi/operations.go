package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readiness is the answer of /readyz. If the service is not ready, it also has the
// members of an error.
type readiness struct {
	OK        bool              `json:"ok"`
	Checks    map[string]string `json:"checks"`
	Error     string            `json:"error,omitempty"`
	RequestID string            `json:"requestId,omitempty"`
}

// operations adds the routes that operators use.
func (a *App) operations() {
	a.Get("/livez", func(c *fiber.Ctx) error { return c.JSON(fiber.Map{"ok": true}) })
	a.Get("/readyz", a.ready)
	a.Get("/metrics", adaptor.HTTPHandler(promhttp.HandlerFor(a.cfg.Registry, promhttp.HandlerOpts{
		// Serve the other metrics if one can't be gathered.
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(a.cfg.Log.Handler(), slog.LevelError),
	})))
	a.Get("/openapi.json", a.Compressed(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(a.cfg.OpenAPI)
	}))
}

// ready checks all dependencies at the same time: one that does not answer takes no time
// from the others.
func (a *App) ready(c *fiber.Ctx) error {
	ctx, cancel := context.WithTimeout(Context(c), 2*time.Second)
	defer cancel()
	errs := make([]error, len(a.cfg.Probes))
	var group sync.WaitGroup
	for i, probe := range a.cfg.Probes {
		group.Go(func() { errs[i] = a.probe(ctx, probe) })
	}
	group.Wait()
	if errors.Is(errors.Join(errs...), errPanic) {
		return errPanic
	}
	state := readiness{OK: true, Checks: make(map[string]string, len(errs))}
	for i, probe := range a.cfg.Probes {
		state.Checks[probe.Name] = "ok"
		if errs[i] != nil {
			state.OK = state.OK && probe.Advisory
			state.Checks[probe.Name] = errs[i].Error()
		}
	}
	if !state.OK {
		state.Error = "not ready"
		if a.cfg.ShowCauses {
			state.RequestID = RequestID(c)
		}
		c.Set(fiber.HeaderRetryAfter, "1")
		return c.Status(http.StatusServiceUnavailable).JSON(state)
	}
	return c.JSON(state)
}

// probe checks one dependency. It runs in its own goroutine, so it must recover from a
// panic itself.
func (a *App) probe(ctx context.Context, p Probe) (err error) {
	defer a.survive(ctx, &err)
	return p.Check(ctx)
}
