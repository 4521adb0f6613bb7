package events_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events"
)

// publicBytes are the members of payloads that hold bytes and may be shown: hashes of
// leaves, roots of trees, and data that is on the chain.
var publicBytes = []string{"leafHash", "root", "transaction"}

// TestNoSecretIsPublic: every member that holds bytes is left out, or is listed here as
// public.
func TestNoSecretIsPublic(t *testing.T) {
	t.Parallel()
	hidden := map[string]bool{}
	for _, definition := range events.Catalogue() {
		data := definition.New()
		var members []string
		for i, fields := 0, reflect.TypeOf(data).Elem(); i < fields.NumField(); i++ {
			field := fields.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			value := reflect.ValueOf(data).Elem().Field(i)
			switch value.Interface().(type) {
			case []byte:
				value.SetBytes([]byte{1})
			case *events.Hash:
				value.Set(reflect.ValueOf(&events.Hash{1}))
			case events.Hash:
			default:
				continue
			}
			if name != "metadata" {
				members = append(members, name)
			}
		}
		if m, ok := data.(*events.MemoryWritten); ok {
			m.Metadata = []byte(`{"sealed":"by hand"}`)
		}
		text, err := events.AppendPublic([]byte("before "), &events.Event{ID: "id", Source: "/s", Owner: "o", OwnerVersion: 1, CommandID: "c", Data: data})
		must(t, err)
		var public struct {
			Type string
			Data map[string]any
		}
		if err := json.Unmarshal(text[len("before "):], &public, json.MatchCaseInsensitiveNames(true)); err != nil || public.Type != string(definition.Type) {
			t.Fatalf("%s: %s: %v", definition.Type, text, err)
		}
		for _, name := range members {
			_, shown := public.Data[name]
			if shown != slices.Contains(publicBytes, name) {
				t.Errorf("%s of %s is shown: %v", name, definition.Type, shown)
			}
			hidden[name] = !shown
		}
		if metadata, ok := public.Data["metadata"].(map[string]any); definition.Type == events.TypeMemoryWritten && (!ok || metadata["sealed"] != "by hand") {
			t.Errorf("metadata is %v", public.Data)
		}
	}
	for _, name := range []string{"sealed", "tokenHash", "keyHash", "idempotencyKeyHash"} {
		if !hidden[name] {
			t.Errorf("%s was not tried", name)
		}
	}
}
