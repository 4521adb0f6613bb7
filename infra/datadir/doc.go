// Package datadir is the data folder of a local run: who may use it, the
// secrets it generates, and the note by which other commands find its servers.
//
// Layout:
//
//	README        says whose folder this is; present only where the folder was
//	              made by us or was empty when we got it
//	ledger.lock   flock(2)ed by the running instance, holds its pid
//	secrets/NAME  one generated secret each, base64, mode 0600
//	run.json      where the servers of the running instance are, mode 0600
//	run.log       what a run at a terminal logged, mode 0600; before that, run.log.1
//
// The lock, not the presence of any file, says whether an instance runs: the
// kernel drops it with the process, however that ends. So a run.json left by a
// killed run is recognised as stale, and nothing has to be cleaned by hand.
package datadir
