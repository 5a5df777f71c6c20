package chaos

// mistakes is what a run must find.
var mistakes = []mistake{
	{
		Name: "one server: any token releases", Single: true,
		File: "shard/release.go",
		Old:  "if e.token != token {",
		New:  "if false {",
	},
	{
		Name: "one server: leases end early", Single: true,
		File: "shard/acquire.go",
		Old:  "if now < e.deadline ||",
		New:  "if now < e.deadline-900e6 ||",
	},
}
