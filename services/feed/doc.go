// Package feed gives owners their own history: pages of it, and what is new as it comes.
//
// The log is the only source. A cursor is the sequence of a message, so it holds for as
// long as the log does, on every replica, whatever becomes of the read models. All events
// of a message have one cursor.
//
//	            subscribe                       message of the owner
//	Follower -> behind ----- page is empty ---> live ---------------> live
//	              ^  \                           |
//	              |   page of the log            | tail begins again, or the follower's
//	              +------------------------------+ channel is full
//
// One tail in each process follows the log for all followers, by direct gets, while there
// are any. It drops a follower that does not keep up. A follower that was dropped
// subscribes again and reads what it missed from the log.
package feed
