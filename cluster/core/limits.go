package core

import "go.etcd.io/raft/v3"

// The timing, in ticks.
const (
	// TickMillis is how long a tick is, in milliseconds.
	TickMillis = 50

	electionTicks  = 10 // silence of a leader before its followers elect another; up to twice that, at random
	heartbeatTicks = 1
	transferTicks  = 2 * electionTicks // for what is proposed to commit before the lead is handed over
	promoteTicks   = 4                 // between two looks at the learners
)

const (
	// maxEntry is at how many bytes of records an entry is closed and the next
	// turn begins another.
	maxEntry = 1 << 20

	// maxMessage bounds the entries of one message, in bytes; one entry may be
	// larger.
	maxMessage = 1 << 20

	// maxInflight bounds the messages sent to a follower and not answered.
	maxInflight = 512

	// maxUncommitted bounds the entries that are proposed and not committed, in
	// bytes; beyond it raft drops proposals and the lead is given up. It is four
	// times what the loops can have submitted (package comment), so releases and
	// expiries pass when acquires are shut.
	maxUncommitted = 64 << 20

	// promoteLag is how many entries a learner may be behind to become a voter.
	promoteLag = 1000
)

func raftConfig(cfg *Config) *raft.Config {
	return &raft.Config{
		ID:                        cfg.ID,
		Storage:                   cfg.Storage,
		Applied:                   cfg.Machine.Index(),
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		MaxSizePerMsg:             maxMessage,
		MaxInflightMsgs:           maxInflight,
		MaxUncommittedEntriesSize: maxUncommitted,
		CheckQuorum:               true,
		PreVote:                   true,
		StepDownOnRemoval:         true,
		DisableProposalForwarding: true,
		Logger:                    cfg.Logger,
	}
}
