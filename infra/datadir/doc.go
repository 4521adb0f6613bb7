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
//	run.log       the log of a run at a terminal, mode 0600; the part before it is run.log.1
//
// The lock, not the presence of a file, says whether an instance runs: the
// kernel releases the lock when the process ends, for whatever reason. So a run.json
// left by a killed run is recognized as stale, and nothing has to be cleaned by hand.
package datadir
