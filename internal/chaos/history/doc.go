// Package history judges what clients of a lock service saw. It owns the record
// of a call and the checkers, each of which finds one kind of contradiction.
//
//	Keys       per key, by porcupine: is there an order of decisions that explains every answer?
//	Intervals  is a key never somebody's while it is certainly still somebody else's?
//	Tokens     do tokens rise in the order of the grants, over all keys?
//	Answers    does no single answer contradict itself: early ends of waits, two releases of one token?
//	Hashes     did replicas that applied the same entries come to the same state?
//	Patience   did every call end when it had to?
//
// What is unknown is taken to have happened at whatever time, or never, as it
// suits the service: a violation is certain. What the checkers rely on is said
// at [Bounds].
//
// The package never reads a clock, and knows neither servers nor faults. The
// chaos run calls it, and its tests, with histories written by hand.
package history
