package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func newUUID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// open sends a request to the core API.
func (w *world) open(ctx context.Context, method, path, body, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.core+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(req)
}

// send sends a request and reads the whole answer.
func (w *world) send(ctx context.Context, method, path, body, token string) (answer string, status int, err error) {
	res, err := w.open(ctx, method, path, body, token)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	return string(all), res.StatusCode, err
}

func (w *world) get(ctx context.Context, path, token string) (answer string, status int, err error) {
	return w.send(ctx, http.MethodGet, path, "", token)
}

// someIDs picks ids at random places of a log.
func (w *world) someIDs(ctx context.Context, token string, size int) ([]string, error) {
	ids := make([]string, 0, 64)
	for range 64 {
		body, _, err := w.get(ctx, fmt.Sprintf("/memories?limit=1&cursor=%d", rand.IntN(size)), token)
		if err != nil {
			return nil, err
		}
		var page []struct{ ID string }
		if err := json.Unmarshal([]byte(body), &page); err != nil || len(page) != 1 {
			return nil, fmt.Errorf("page of one: %d, %w", len(page), err)
		}
		ids = append(ids, page[0].ID)
	}
	return ids, nil
}

// allIDs returns the ids of an owner's memories, in random order.
func (w *world) allIDs(ctx context.Context, token string) ([]string, error) {
	res, err := w.open(ctx, http.MethodGet, "/memories", "", token)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var all []struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, j := range rand.Perm(len(all)) {
		ids[i] = all[j].ID
	}
	return ids, nil
}

func (w *world) plainIDs(ctx context.Context, owner string) ([]string, error) {
	rows, err := w.pool.Query(ctx, `SELECT id::text FROM plain WHERE owner = $1 ORDER BY random()`, owner)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
