package chaos

// mistakes is what a run must find.
var mistakes = []mistake{}
