package batches

import (
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds the states of batches, and keeps every transaction that was signed
// for them, with its result. A confirmed batch does not change.
var Projection = projector.Fold("batches", []string{"batches", "batch_attempts"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	at := e.Time.Time()
	switch data := e.Data.(type) {
	case *events.BatchCut:
		return w.ExecByID(r, e, data.BatchID, `INSERT INTO batches AS b (id, owner, from_size, size, root, state, cut_at, seq)
			VALUES ($1, $2, $3, $4, $5, 'cut', $6, $7)
			ON CONFLICT (id) DO UPDATE SET from_size = excluded.from_size, size = excluded.size, root = excluded.root,
				state = excluded.state, cut_at = excluded.cut_at, seq = excluded.seq
			WHERE b.state <> 'confirmed'`,
			e.Owner, data.FromSize, data.Size, data.Root[:], at, r.Seq)
	case *events.BatchSubmitted:
		transaction := column.Bytes(data.Transaction)
		if err := w.ExecByID(r, e, data.BatchID, `INSERT INTO batches AS b (id, owner, from_size, size, root, state,
				signature, blockhash, last_valid_block_height, transaction, submitted_at, seq)
			VALUES ($1, $2, 0, $3, $4, 'submitted', $5, $6, $7, $8, $9, $10)
			ON CONFLICT (id) DO UPDATE SET size = excluded.size, root = excluded.root, state = excluded.state,
				signature = excluded.signature, blockhash = excluded.blockhash,
				last_valid_block_height = excluded.last_valid_block_height, transaction = excluded.transaction,
				submitted_at = excluded.submitted_at, seq = excluded.seq
			WHERE b.state <> 'confirmed'`,
			e.Owner, data.Size, data.Root[:], data.Signature, data.Blockhash, data.LastValidBlockHeight, transaction, at, r.Seq); err != nil {
			return err
		}
		// The same signature means the same bytes, so a second record adds nothing.
		return w.ExecByID(r, e, data.BatchID, `INSERT INTO batch_attempts (batch_id, signature, owner, blockhash, last_valid_block_height, transaction, submitted_at, seq)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (batch_id, signature) DO NOTHING`,
			data.Signature, e.Owner, data.Blockhash, data.LastValidBlockHeight, transaction, at, r.Seq)
	case *events.BatchConfirmed:
		return w.ExecByID(r, e, data.BatchID, `INSERT INTO batches AS b (id, owner, from_size, size, root, state,
				signature, slot, cluster, program_id, account, confirmed_at, seq)
			VALUES ($1, $2, 0, $3, $4, 'confirmed', $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (id) DO UPDATE SET size = excluded.size, root = excluded.root, state = excluded.state,
				signature = excluded.signature, slot = excluded.slot, cluster = excluded.cluster,
				program_id = excluded.program_id, account = excluded.account,
				confirmed_at = excluded.confirmed_at, seq = excluded.seq
			WHERE b.state <> 'confirmed'`,
			e.Owner, data.Size, data.Root[:], data.Signature, data.Slot, data.Cluster, data.ProgramID, data.Account, at, r.Seq)
	case *events.BatchFailed:
		if data.Signature != "" {
			if err := w.ExecByID(r, e, data.BatchID, `UPDATE batch_attempts SET failed_at = $3, failure = $4 WHERE batch_id = $1 AND signature = $2`,
				data.Signature, at, []byte(data.Reason)); err != nil {
				return err
			}
		}
		return w.ExecByID(r, e, data.BatchID, `UPDATE batches SET state = 'failed', failed_at = $2, failure = $3, seq = $4
			WHERE id = $1 AND state <> 'confirmed'`, at, []byte(data.Reason), r.Seq)
	}
	return nil
})
