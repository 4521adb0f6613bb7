package events

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// secretMembers are the members of payloads that must never be shown outside the log:
// sealed bytes, and hashes of tokens, keys, and Idempotency-Keys. A test checks all
// payloads against the list.
var secretMembers = []string{"sealed", "tokenHash", "keyHash", "idempotencyKeyHash"}

// AppendPublic appends an event in the JSON format of CloudEvents, in the newest version
// of its type, without its secret members.
func AppendPublic(b []byte, e *Event) ([]byte, error) {
	var env envelope
	if err := current.envelop(&env, e); err != nil {
		return nil, err
	}
	data, err := withoutSecrets(env.Data)
	if err != nil {
		return nil, fmt.Errorf("public form of %s: %w", e.Type(), err)
	}
	env.Data = data
	text, err := json.Marshal(&env)
	return append(b, text...), err
}

// withoutSecrets copies an object without its secret members.
func withoutSecrets(data jsontext.Value) (jsontext.Value, error) {
	var public bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(data)), jsontext.NewEncoder(&public)
	for in.PeekKind() != '}' {
		token, err := in.ReadToken()
		if err != nil {
			return nil, err
		}
		if token.Kind() == '"' && slices.Contains(secretMembers, token.String()) {
			if err := in.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if err := out.WriteToken(token); err != nil {
			return nil, err
		}
		if token.Kind() == '"' {
			value, err := in.ReadValue()
			if err == nil {
				err = out.WriteValue(value)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if err := out.WriteToken(jsontext.EndObject); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(public.Bytes()), nil
}
