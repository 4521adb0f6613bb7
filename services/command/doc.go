// Package command is the write side. A pure function takes a command, one owner's state,
// and the time, and returns events or a refusal. The events are appended with the owner's
// expected version.
//
//	        load (read model + tail of the log)
//	            |
//	command -> state -> decide --refusal on a fresh state--> error
//	            ^         |  \
//	            |         |   refusal on a state that may be old: read the tail, decide again
//	   tail of  |      events
//	   the log  |         |
//	            |       append(expected version)
//	            |      /      |         \
//	            conflict    stored    uncertain: the tail is read before the state
//	                          |       is used again, and the client is told
//	                   apply to state
//
// Only the expected version is trusted. The state in memory may be old, and several
// processes may decide for one owner at once, but only one of them gets its events into the
// log. Therefore no leaf index is assigned twice, no grant is spent twice, and no revoked
// key writes, on any number of replicas.
package command
