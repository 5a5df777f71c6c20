// Package codec owns the frames of the wire: it parses them in place and
// appends them to a caller's buffer. It carries out §1, §2 and §6 of the
// protocol.
//
// Both parsers look at the bytes that have arrived so far and have three
// outcomes: one whole frame, "need more", or malformed. They keep no state and
// never keep the input, so a stream may be cut anywhere: the caller puts what
// was left over in front of what arrives next and asks again. Keys and texts
// alias the input; they are valid only as long as the caller's buffer is.
//
// Codec never allocates, save when a caller's buffer has to grow; it never
// does I/O and never measures time: that a stream ends inside a frame, or that
// a frame takes longer than 5 s (§1.6), is for the caller to see.
//
// The server's loop calls [ParseRequest] and the reply appenders; the client
// and the load generator call the request appenders and [ParseReply].
package codec
