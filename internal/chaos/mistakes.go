package chaos

// mistakes is what a run must find.
var mistakes = []mistake{
	{
		Name: "one server: any token releases", Single: true,
		Edits: []edit{{"shard/release.go", "if e.token != token {", "if false {"}},
	},
	{
		Name: "one server: leases end early", Single: true,
		Edits: []edit{{"shard/acquire.go", "if now < e.deadline ||", "if now < e.deadline-900e6 ||"}},
	},
}
