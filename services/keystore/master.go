package keystore

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

// lastEntry asks for the newest message of the bucket.
const lastEntry = `{"last_by_subj":"$KV.` + Bucket + `.>"}`

// NewestMaster returns the id of the master key that wraps the newest entry of
// the bucket, or nothing where there is no entry, it is the mark of one that was
// forgotten, or it can't be read. It is one question, which the roles that may
// read keys may ask.
func NewestMaster(ctx context.Context, js jetstream.JetStream) (string, error) {
	answer, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+Stream, []byte(lastEntry))
	if err != nil {
		return "", fmt.Errorf("newest data key: %w: %w", ErrUnavailable, err)
	}
	var got struct {
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
		Error *struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return "", fmt.Errorf("newest data key: %w: %w", ErrUnavailable, err)
	}
	const none = 404
	switch {
	case got.Error != nil && got.Error.Code == none:
		return "", nil
	case got.Error != nil:
		return "", fmt.Errorf("newest data key: %w: %s", ErrUnavailable, got.Error.Description)
	}
	var e entry
	if json.Unmarshal(got.Message.Data, &e) != nil { // a mark holds nothing
		return "", nil
	}
	return e.Master, nil
}

// Fits reports, with an error that matches ErrMasterKey, that a store with these
// master keys is not the one to write beside an entry that the master key of that
// id wraps. It would read nothing of what is there, and wrap what is new by
// another key than the rest.
func Fits(newest string, masters []MasterKey) error {
	known := ""
	for i, master := range masters {
		switch {
		case master.ID() == newest:
			return nil
		case i > 0:
			known += " and MASTER_KEY_PREVIOUS is "
		}
		known += master.ID()
	}
	if newest == "" {
		return nil
	}
	return fmt.Errorf("%w: the newest entry of the keystore names master key %s, MASTER_KEY is %s: "+
		"set MASTER_KEY, or MASTER_KEY_PREVIOUS beside a new one, to the key of that id", ErrMasterKey, newest, known)
}
