package admin

// Metrics of cluster mode; a single node has none of them.
var (
	leadsDesc         = desc("cluster_leads", "1 while this node leads and executes requests.")
	leaderKnownDesc   = desc("cluster_leader_known", "1 while this node knows a leader.")
	termDesc          = desc("cluster_term", "Number of the present lead.")
	commitDesc        = desc("cluster_commit_index", "Index of the last entry known to be agreed on.")
	appliedDesc       = desc("cluster_applied_index", "Index of the last entry whose effect is in the state.")
	snapshotIndexDesc = desc("cluster_snapshot_index", "Index of the last snapshot; the log begins behind it.")
	stateKeysDesc     = desc("cluster_keys", "Keys that are held in the replicated state.")
	lastTokenDesc     = desc("cluster_last_token", "The last token that was granted.")

	membersDesc      = desc("cluster_members", "Members by their vote: voter, or learner while they catch up.", "vote")
	memberActiveDesc = desc("cluster_member_active", "1 if the leader, which alone has this metric, heard of the member lately.", "member")
	memberMatchDesc  = desc("cluster_member_match_index", "Last entry the leader, which alone has this metric, knows the member to have on its disk.", "member")

	proposalsDesc = desc("cluster_proposals_total", "Entries that this node proposed as leader.")
	turnsDesc     = desc("cluster_turns_total", "Turns of loops that were in them.")
	readsDesc     = desc("cluster_reads_total", "Times a majority was asked whether this node still leads.")
	droppedDesc   = desc("cluster_dropped_turns_total", "Turns that were never proposed, for the lead was lost.")
	electionsDesc = desc("cluster_elections_total", "Elections that this node has won.")
	leadersDesc   = desc("cluster_leader_changes_total", "Changes of the leader that this node has seen.")
	misfitsDesc   = desc("cluster_misfits_total", "Entries that did not fit the state: defects; please report them.")
	snapshotsDesc = desc("cluster_snapshots_total", "Snapshots that this node has written.")
	fsyncDesc     = desc("cluster_fsync_seconds", "Time that a write to the log took until it was on the disk.")
)

func (s sink) cluster(c *ClusterStatus) {
	s.gauge(leadsDesc, oneIf(c.Serving))
	s.gauge(leaderKnownDesc, oneIf(c.Leader != ""))
	s.gauge(termDesc, float64(c.Term))
	s.gauge(commitDesc, float64(c.Commit))
	s.gauge(appliedDesc, float64(c.Applied))
	s.gauge(snapshotIndexDesc, float64(c.SnapshotIndex))
	s.gauge(stateKeysDesc, float64(c.Keys))
	s.gauge(lastTokenDesc, float64(c.Token))
	voters := 0
	for i := range c.Members {
		m := &c.Members[i]
		if m.Voter {
			voters++
		}
		if m.Active != nil {
			s.gauge(memberActiveDesc, oneIf(*m.Active), m.Name)
		}
		if m.Match != nil {
			s.gauge(memberMatchDesc, float64(*m.Match), m.Name)
		}
	}
	s.gauge(membersDesc, float64(voters), "voter")
	s.gauge(membersDesc, float64(len(c.Members)-voters), "learner")
	s.counter(proposalsDesc, c.Counts.Proposals)
	s.counter(turnsDesc, c.Counts.Turns)
	s.counter(readsDesc, c.Counts.Reads)
	s.counter(droppedDesc, c.Counts.Dropped)
	s.counter(electionsDesc, c.Counts.Elections)
	s.counter(leadersDesc, c.Counts.Leaders)
	s.counter(misfitsDesc, c.Counts.Misfits)
	s.counter(snapshotsDesc, c.Counts.Snapshots)
	s.ch <- histogram(fsyncDesc, &c.Fsync)
}
