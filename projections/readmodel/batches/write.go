package batches

import (
	"time"

	"github.com/memory-ledger/ledger/projections/projector"
)

// writeBatches merges a slice's changes into the rows. A failure of a batch
// that was never cut has nothing to fail and leaves no row.
func writeBatches(w *projector.Writer, changes []*change) {
	n := len(changes)
	var (
		id, root, transaction, failure                                = make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
		owner, state                                                  = make([]string, n), make([]string, n)
		seq                                                           = make([]int64, n)
		fromSize, size, lastValid, slot                               = make([]*int64, n), make([]*int64, n), make([]*int64, n), make([]*int64, n)
		cutAt, submittedAt, confirmedAt, failedAt                     = make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
		signature, blockhash, cluster, program, account, confirmation = make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
	)
	for i, c := range changes {
		id[i], owner[i], state[i], seq[i] = c.id[:], c.owner, string(c.state), c.seq
		fromSize[i], size[i], root[i], cutAt[i] = c.fromSize, c.size, c.root, c.cutAt
		failedAt[i], failure[i] = c.failedAt, c.failure
		if s := c.submitted; s != nil {
			signature[i], blockhash[i], lastValid[i] = &s.signature, &s.blockhash, &s.lastValid
			transaction[i], submittedAt[i] = s.transaction, &s.at
		}
		if f := c.confirmed; f != nil {
			confirmation[i], slot[i], confirmedAt[i] = &f.signature, &f.slot, &f.at
			cluster[i], program[i], account[i] = &f.cluster, &f.programID, &f.account
		}
	}
	w.Exec(mergeBatches, id, owner, state, seq, fromSize, size, root, cutAt,
		signature, blockhash, lastValid, transaction, submittedAt,
		confirmation, slot, cluster, program, account, confirmedAt, failedAt, failure)
}

// mergeBatches: what the slice does not say stays as it is, and a confirmed
// batch stays as it was confirmed.
const mergeBatches = `
INSERT INTO batches AS b (id, owner, from_size, size, root, state, cut_at,
    signature, blockhash, last_valid_block_height, transaction, submitted_at,
    slot, cluster, program_id, account, confirmed_at, failed_at, failure, seq)
SELECT d.id, d.owner, coalesce(d.from_size, o.from_size, 0), coalesce(d.size, o.size), coalesce(d.root, o.root), d.state,
    coalesce(d.cut_at, o.cut_at),
    coalesce(d.confirmation, d.signature, o.signature), coalesce(d.blockhash, o.blockhash),
    coalesce(d.last_valid, o.last_valid_block_height), coalesce(d.transaction, o.transaction),
    coalesce(d.submitted_at, o.submitted_at),
    d.slot, d.cluster, d.program_id, d.account, d.confirmed_at,
    coalesce(d.failed_at, o.failed_at), coalesce(d.failure, o.failure), d.seq
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::timestamptz[],
            $9::text[], $10::text[], $11::bigint[], $12::bytea[], $13::timestamptz[],
            $14::text[], $15::bigint[], $16::text[], $17::text[], $18::text[], $19::timestamptz[], $20::timestamptz[], $21::bytea[])
     AS d (id, owner, state, seq, from_size, size, root, cut_at,
           signature, blockhash, last_valid, transaction, submitted_at,
           confirmation, slot, cluster, program_id, account, confirmed_at, failed_at, failure)
LEFT JOIN batches o ON o.id = d.id
WHERE (o.id IS NOT NULL AND o.state <> 'confirmed') OR (o.id IS NULL AND d.size IS NOT NULL)
ON CONFLICT (id) DO UPDATE SET
    from_size = excluded.from_size, size = excluded.size, root = excluded.root, state = excluded.state,
    cut_at = excluded.cut_at, signature = excluded.signature, blockhash = excluded.blockhash,
    last_valid_block_height = excluded.last_valid_block_height, transaction = excluded.transaction,
    submitted_at = excluded.submitted_at, slot = excluded.slot, cluster = excluded.cluster,
    program_id = excluded.program_id, account = excluded.account, confirmed_at = excluded.confirmed_at,
    failed_at = excluded.failed_at, failure = excluded.failure, seq = excluded.seq`

// writeAttempts keeps every transaction that was signed, with its end.
func writeAttempts(w *projector.Writer, attempts []*attempt) {
	var sent, dead []*attempt
	for _, a := range attempts {
		if a.submitted != nil {
			sent = append(sent, a)
		}
		if a.failedAt != nil {
			dead = append(dead, a)
		}
	}
	if len(sent) > 0 {
		insertAttempts(w, sent)
	}
	if len(dead) > 0 {
		n := len(dead)
		id, failure := make([][]byte, n), make([][]byte, n)
		signature, at := make([]string, n), make([]time.Time, n)
		for i, a := range dead {
			id[i], signature[i], at[i], failure[i] = a.id[:], a.signature, *a.failedAt, a.failure
		}
		w.Exec(`UPDATE batch_attempts a SET failed_at = d.at, failure = d.failure
			FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::bytea[]) AS d (id, signature, at, failure)
			WHERE a.batch_id = d.id AND a.signature = d.signature`, id, signature, at, failure)
	}
}

func insertAttempts(w *projector.Writer, sent []*attempt) {
	n := len(sent)
	id, transaction := make([][]byte, n), make([][]byte, n)
	signature, owner, blockhash := make([]string, n), make([]string, n), make([]string, n)
	lastValid, seq := make([]int64, n), make([]int64, n)
	at := make([]time.Time, n)
	for i, a := range sent {
		s := a.submitted
		id[i], signature[i], owner[i], blockhash[i] = a.id[:], a.signature, a.owner, s.blockhash
		lastValid[i], transaction[i], at[i], seq[i] = s.lastValid, s.transaction, s.at, a.seq
	}
	// The same signature is the same bytes: recording it again says nothing new.
	w.Exec(`INSERT INTO batch_attempts (batch_id, signature, owner, blockhash, last_valid_block_height, transaction, submitted_at, seq)
		SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::timestamptz[], $8::bigint[])
		ON CONFLICT (batch_id, signature) DO NOTHING`,
		id, signature, owner, blockhash, lastValid, transaction, at, seq)
}
