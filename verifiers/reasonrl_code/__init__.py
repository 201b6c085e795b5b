"""code: does the program in the response pass the problem's tests? Judged from outside a sandbox."""
