"""A verifier for reasonrl in twenty lines: does the response read the same backwards?"""

from reasonrl import Problem, Response, Verdict, Verifier, hookimpl


class Palindrome(Verifier):
    """Reward 1 if the letters and digits of the response are a palindrome of at least three, else 0."""

    name = "palindrome"
    isolation = "inline"  # it cannot hang, so it needs no process of its own

    def verify(self, problem: Problem, response: Response) -> Verdict:
        letters = [character.lower() for character in response.text if character.isalnum()]
        right = len(letters) >= 3 and letters == letters[::-1]
        return Verdict(float(right), "correct" if right else "wrong", evidence={"letters": "".join(letters)})


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    return [Palindrome]
