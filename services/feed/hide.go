package feed

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
)

// hidden are the members of an event's data that only a session of the owner may see.
var hidden = []string{"label", "prefix", "sessionId"}

// HideAccess removes from the page what identifies other credentials: the labels and the
// beginnings of API keys, and the ids of sessions.
func (p *Page) HideAccess() error {
	var all []map[string]jsontext.Value
	if err := json.Unmarshal(append(append([]byte("["), p.Events...), ']'), &all); err != nil {
		return fmt.Errorf("page of events: %w", err)
	}
	for _, event := range all {
		var data map[string]jsontext.Value
		if err := json.Unmarshal(event["data"], &data); err != nil {
			return fmt.Errorf("data of an event: %w", err)
		}
		for _, name := range hidden {
			delete(data, name)
		}
		for name, value := range data {
			var by events.Via // of whatever name: what a session did
			if json.Unmarshal(value, &by) == nil && by.Kind == events.ViaSession {
				data[name] = jsontext.Value(`{"kind":"session"}`)
			}
		}
		var err error
		if event["data"], err = json.Marshal(data, json.Deterministic(true)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return err
	}
	p.Events = text[1 : len(text)-1]
	return nil
}
