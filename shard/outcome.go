package shard

// Session names a client's connection: a dense slot on its home loop, and a
// generation that tells the slot's successive users apart. A shard only
// compares it and uses loop and slot to find the session's waiters.
type Session struct {
	Slot uint32
	Loop uint16 // below Config.Loops
	Gen  uint16
}

// Attempt is one acquire (§3). The shard keeps nothing of it but copies.
type Attempt struct {
	Key          []byte // 1..128 bytes (§2), checked by the caller
	Hash         uint64 // of Key; the same function for every command
	Owner        uint64 // opaque, comes back with the outcome
	Session      Session
	WaitSeconds  uint8 // 0: at once or not at all
	LeaseSeconds uint8 // 1..250, checked by the caller
}

// Outcome says what became of an attempt. Its zero value is none of them.
type Outcome uint8

const (
	Granted     Outcome = iota + 1 // holds the key until release or lease end
	TimedOut                       // the wait ran out, or was 0 and the key was not free
	Parked                         // waits; the outcome follows as an event
	BusyQueue                      // refused: the key has MaxWaiters waiters
	BusyWaiters                    // refused: the admission of waiters in all is closed
	BusyKeys                       // refused: a new key, and the admission of keys is closed
	BusyTokens                     // refused: tokens have run out (§5)
)

var outcomeNames = [...]string{
	Granted: "granted", TimedOut: "timed_out", Parked: "parked", BusyQueue: "busy_queue",
	BusyWaiters: "busy_waiters", BusyKeys: "busy_keys", BusyTokens: "busy_tokens",
}

// Busy reports whether the outcome is a refusal for lack of capacity (B).
func (o Outcome) Busy() bool { return o >= BusyQueue }

// String returns the outcome's name as metrics and logs spell it.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "none"
}
