package schema

import (
	"maps"
	"slices"
	"strings"

	"github.com/memory-ledger/ledger/events"
)

type channel struct {
	family events.Family
	kind   events.SubjectKind
	doc    string
}

var channels = []channel{
	{events.FamilyLedger, events.KindMemory, "Leaves of the owner's log, and what of them was retracted, with the use of a grant that paid for one, or of a key that wrote it."},
	{events.FamilyLedger, events.KindGrant, "Agent cases and memory drops."},
	{events.FamilyLedger, events.KindSession, "Sign-ins and sign-outs."},
	{events.FamilyLedger, events.KindKey, "API keys."},
	{events.FamilyChain, events.KindBatch, "Roots on their way to the chain."},
	{events.FamilyChain, events.KindStake, "Movements of an owner's stake, as seen on the chain."},
}

func (c channel) name() string    { return string(c.family) + "-" + string(c.kind) }
func (c channel) address() string { return string(c.family) + ".{partition}.{owner}." + string(c.kind) }

// asyncAPI describes the stream. The document stands alone: it includes the events'
// schemas, without the members that identify them elsewhere ($schema and $id).
func asyncAPI(data map[string]object) object {
	schemas := object{"envelope": envelope()}
	for _, file := range sorted(data) {
		schema := maps.Clone(data[file])
		delete(schema, "$schema")
		delete(schema, "$id")
		schemas[strings.TrimSuffix(file, ".json")] = schema
	}
	all, operations, messages := object{}, object{}, object{}
	for _, c := range channels {
		messages[c.name()] = c.message()
		all[c.name()] = object{
			"address": c.address(), "description": c.doc,
			"parameters": object{
				"partition": object{"$ref": "#/components/parameters/partition"},
				"owner":     object{"$ref": "#/components/parameters/owner"},
			},
			"messages": object{"batch": object{"$ref": "#/components/messages/" + c.name()}},
		}
		operations["read-"+c.name()] = object{
			"action": "receive", "channel": object{"$ref": "#/channels/" + c.name()},
			"summary": "Read what was decided, from any sequence on.",
		}
	}
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Memory Ledger, event log", "version": "1.0.0",
			"description": "One stream, the only source of truth. Anyone who may read it can replay it from sequence 1 and get the same answers. A message is one command of one owner; what was written is never changed. Events of older versions stay; their schemas do too.",
			"license":     object{"name": "Apache-2.0"},
		},
		"defaultContentType": events.ContentType,
		"channels":           all,
		"operations":         operations,
		"components": object{
			"messages": messages, "schemas": schemas,
			"parameters": object{
				"partition": object{"description": "The first byte of SHA-256 of the owner's text, two lowercase hex digits."},
				"owner":     object{"description": "The owner's public key, base58 of 32 bytes."},
			},
		},
	}
}

// message describes the messages that a channel may hold.
func (c channel) message() object {
	var alternatives []object
	for _, d := range events.Catalogue() {
		if !slices.Contains(d.Kinds, c.kind) {
			continue
		}
		for version := 1; version <= d.Version; version++ {
			name := strings.TrimSuffix(FileName(d.Type, version), ".json")
			alternatives = append(alternatives, alternative(d.Type, version, "#/components/schemas/"+name))
		}
	}
	return object{
		"name": c.name(), "title": "One command", "contentType": events.ContentType, "summary": c.doc,
		"payload": object{
			"type": "array", "minItems": 1,
			"items": object{"allOf": []any{object{"$ref": "#/components/schemas/envelope"}, object{"oneOf": alternatives}}},
		},
	}
}
