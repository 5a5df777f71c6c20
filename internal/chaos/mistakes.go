package chaos

// mistakes is what a run must find.
var mistakes = []mistake{
	{
		Name: "answers before the log has committed what they tell",
		Edits: []edit{{"loop/withheld.go",
			"l.srv.cfg.Replica.Submit(",
			"defer l.srv.Confirm(l.idx, t.seq); l.srv.cfg.Replica.Submit("}},
		Only: []string{"cut both ways", "deaf or dumb", "kill", "power cut"},
	},
	{
		Name: "a new leader takes the leases that it finds to have ended",
		Edits: []edit{{"shard/journal.go",
			"e.hold(now, token, leaseSeconds)",
			"e.hold(now, token, leaseSeconds); e.deadline = now"}},
		Only: []string{"kill", "transfer", "restart", "pause"},
	},
	{
		Name: "the end of a lease ends whatever hold there is",
		Edits: []edit{
			{"shard/sweep.go", "if now < e.deadline {\n\t\ts.arm(i, e)", "if false {\n\t\ts.arm(i, e)"},
			{"shard/release.go", "if s.journal != nil {\n\t\ts.disarm(e)", "if s.journal != nil {"},
			{"shard/queue.go", "if e.deadline >= unconfirmed {", "if e.deadline >= unconfirmed || e.timer != 0 {"},
		},
		Only: []string{"transfer", "reset"},
	},
	{
		Name: "reads without proof of the lead",
		Edits: []edit{{"cluster/core/turns.go",
			"reads = reads || queue[n].Read",
			"reads = false"}},
		Only: []string{"two leaders"}, Quiet: true,
	},
	{
		Name: "M where what was asked may have been done",
		Edits: []edit{{"loop/deposed.go",
			"m.kind = lost\n",
			"m.kind = undone\n"}},
		Only: []string{"deaf or dumb", "cut one way", "loss", "pause"},
	},
	{
		Name: "a new leader begins with tokens of before",
		Edits: []edit{
			{"loop/lead.go", "Tokens.Reset(state.Counter)", "Tokens.Reset(state.Counter / 2)"},
			{"cluster/state/apply.go", "if !m.gaps.take(token) {", "if m.gaps.take(token); false {"},
		},
		Only: []string{"transfer", "kill"},
	},
	{
		Name: "the log is not synced",
		Edits: []edit{{"cluster/disk.go",
			"if err := d.wal.Save(hard, entries); err != nil {",
			"d.wal.SetUnsafeNoFsync()\n\tif err := d.wal.Save(hard, entries); err != nil {"}},
		Only: []string{"power cut"},
	},

	{
		Name: "one server: any token releases", Single: true,
		Edits: []edit{{"shard/release.go", "if e.token != token {", "if false {"}},
	},
	{
		Name: "one server: leases end early", Single: true,
		Edits: []edit{{"shard/acquire.go", "if now < e.deadline ||", "if now < e.deadline-900e6 ||"}},
	},
}
