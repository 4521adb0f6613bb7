package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"github.com/google/uuid"
)

func newUUID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func bytesReader(s string) io.Reader { return bytes.NewReader([]byte(s)) }

// someIDs picks ids from all over a log.
func (w *world) someIDs(ctx context.Context, token string, size int) ([]string, error) {
	ids := make([]string, 0, 64)
	for range 64 {
		path := fmt.Sprintf("%s/memories?limit=1&cursor=%d", w.core, rand.IntN(size))
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		var page []struct{ ID string }
		err = json.NewDecoder(res.Body).Decode(&page)
		res.Body.Close()
		if err != nil || len(page) != 1 {
			return nil, fmt.Errorf("page of one: %d, %w", len(page), err)
		}
		ids = append(ids, page[0].ID)
	}
	return ids, nil
}
