// Package command is the side that decides. A command meets one owner's
// state, and a pure function turns the two, and the time, into events or a
// refusal; the events are appended with the owner's expected version.
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
// Nothing but the expected version is trusted: the state in memory may be old,
// several processes may decide for one owner at once, and at most one of them
// gets its events into the log. That is why no leaf index is given twice, no
// grant is spent twice, and no revoked key writes, on any number of replicas.
package command
