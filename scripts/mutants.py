# SPDX-License-Identifier: Apache-2.0
"""mutants.py - lists the small wrong changes that can be made to a C source (see mutate.py).

A source is cut into tokens; changes are made only inside functions: not in comments, strings, preprocessor
lines, tables at file scope, local static tables, assertions, and what writes a message. It need not
understand C: a change that does not compile is dropped later.

A mutant's identity is a hash of function, line before and line after, so it stays the same when code moves
to another line or file.
"""
import hashlib
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|\.\.\.|->|\+\+|--|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|.)
""", re.X | re.S | re.M)

# Calls whose arguments only reach a person or a test, never the result.
MESSAGE = re.compile(r"(MU_FAIL\w*|mu_err_\w+|mu_diags?_\w+|mu_(log|warn|info|debug)\w*|(_Static_|static_)?assert|"
                     r"mu_failpoint\w*)$")
SWAPS = {  # an operator and what it becomes
    "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "&&": ["||"], "||": ["&&"],
    "&": ["|"], "|": ["&"], "<<": [">>"], ">>": ["<<"], "++": ["--"], "--": ["++"],
    "+=": ["-=", "="], "-=": ["+=", "="], "*=": ["/=", "="], "/=": ["*="], "|=": ["&=", "="], "&=": ["|="],
}
BETWEEN_SPACES = set("<>+-*/%&|")  # these may also be a sign, a pointer or an address, written without spaces
WORDS = {"true": "false", "false": "true", "break": "continue", "continue": "break"}
TYPE_WORDS = {"const", "static", "struct", "enum", "union", "unsigned", "signed", "int", "char", "float", "double",
              "long", "short", "void", "bool", "size_t", "_Atomic", "register", "typedef", "extern"}
HEADERS = {"if", "for", "while", "switch"}
JUMPS = {"return", "break", "continue", "goto", "case", "default"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class Mutant:
    path: str       # of the source, as given
    function: str
    line: int       # from 1
    kind: str
    start: int      # the changed characters
    end: int
    new: str        # what stands there instead, with as many line ends
    before: str     # the line or lines, spaces collapsed
    after: str
    id: str = ""

    def apply(self, source):
        return source[:self.start] + self.new + source[self.end:]


def tokens_of(source):
    found = [Token(m.lastgroup, m.group(), m.start(), m.end()) for m in TOKEN.finditer(source)]
    return [t for t in found if t.kind != "space"]


def partner(tokens, at, step=1):
    """The index of the bracket that belongs to the one at `at`; the end of the list if there is none."""
    depth = 0
    while 0 <= at < len(tokens):
        if tokens[at].kind == "sign" and tokens[at].text in "([{":
            depth += 1
        if tokens[at].kind == "sign" and tokens[at].text in ")]}":
            depth -= 1
        if depth == 0:
            return at
        at += step
    return max(0, min(at, len(tokens) - 1))


def functions_of(tokens):
    """(name, gives a status?, index of `{`, index of `}`) of each function at file scope."""
    at = 0
    while at < len(tokens):
        if tokens[at].text == "{":
            end = partner(tokens, at)
            if at > 0 and tokens[at - 1].text == ")":
                name = partner(tokens, at - 1, -1) - 1
                yield tokens[name].text, tokens[name - 1].text == "mu_status", at, end
            at = end
        at += 1


def statements_of(tokens, begin, end):
    """(first, last) token of each statement and (first, last) of each condition, by two lists."""
    statements, conditions = [], []
    at = start = begin + 1
    while at < end:
        text = tokens[at].text
        if at == start and text in HEADERS | {"else", "do"}:
            if text in HEADERS:
                close = partner(tokens, at + 1)
                if text in ("if", "while"):
                    conditions.append((at + 1, close))
                elif text == "for":
                    statements.append((at + 2, close - 1))
                at = close
            start = at + 1
        elif text == ":" and (tokens[start].text in ("case", "default") or at == start + 1):
            start = at + 1
        elif text in "([" or (text == "{" and at != start):  # arguments, or what an object begins with
            at = partner(tokens, at)
        elif text in "{}":
            start = at + 1
        elif text == ";":
            statements.append((start, at))
            start = at + 1
        at += 1
    return statements, conditions


def is_declaration(tokens, first, last):
    if tokens[first].text in TYPE_WORDS:
        return True
    at = first + 1
    while at < last and tokens[at].text == "*":
        at += 1
    return (tokens[first].kind == "name" and tokens[first].text not in JUMPS and at < last
            and tokens[at].kind == "name" and tokens[at + 1].text in ("=", ";", ",", "["))


class Lister:
    def __init__(self, path, source):
        self.path, self.source = path, source
        self.tokens = tokens_of(source)
        # The same characters without comments: rewording one changes no identity.
        self.bare = TOKEN.sub(lambda m: m.group() if m.group()[:2] not in ("//", "/*") else " " * len(m.group()), source)
        self.found = []

    def add(self, function, kind, first, last, new):
        """Tokens first to last become `new`."""
        start, end = self.tokens[first].start, self.tokens[last].end
        new += "\n" * (self.source.count("\n", start, end) - new.count("\n"))  # later lines keep their numbers
        left = self.source.rfind("\n", 0, start) + 1
        right = self.source.find("\n", end)
        right = len(self.source) if right < 0 else right
        before = " ".join(self.bare[left:right].split())
        after = " ".join((self.bare[left:start] + new + self.bare[end:right]).split())
        line = self.source.count("\n", 0, start) + 1
        self.found.append(Mutant(self.path, function, line, kind, start, end, new, before, after))

    def text(self, first, last):
        return self.source[self.tokens[first].start:self.tokens[last].end]

    def quiet_tokens(self, begin, end, statements):
        """Indices of tokens that must not be changed one by one."""
        quiet = set()
        for at in range(begin, end):
            if self.tokens[at].kind == "name" and MESSAGE.match(self.tokens[at].text):
                if self.tokens[at + 1].text == "(":
                    quiet.update(range(at, partner(self.tokens, at + 1) + 1))
        for first, last in statements:
            texts = [t.text for t in self.tokens[first:last + 1]]
            if texts[0] == "static":
                quiet.update(range(first, last + 1))
            elif is_declaration(self.tokens, first, last):  # sizes of arrays; `= {0}` means "empty"
                upto = texts.index("=") if "=" in texts else len(texts)
                quiet.update(range(first, first + upto))
                for i in range(upto, len(texts) - 2):
                    if texts[i:i + 3] == ["{", "0", "}"]:
                        quiet.add(first + i + 1)
        return quiet

    def change_token(self, function, at):
        t, source = self.tokens[at], self.source
        spaced = source[t.start - 1].isspace() and source[t.end].isspace()
        if t.kind == "sign" and t.text in SWAPS and (spaced or t.text not in BETWEEN_SPACES):
            for new in SWAPS[t.text]:
                self.add(function, "operator", at, at, new)
        elif t.kind == "sign" and t.text == "!":
            self.add(function, "negation", at, at, "")
        elif t.kind == "name" and t.text in WORDS:
            self.add(function, "word", at, at, WORDS[t.text])
        elif t.kind == "number":
            m = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", t.text)
            if m:
                value = int(m.group(1), 0 if m.group(1)[:2] in ("0x", "0X") else 10)
                for new in [value + 1] + ([value - 1] if value > 0 else []):
                    self.add(function, "constant", at, at, f"{new}{m.group(2)}")
                return
            m = re.fullmatch(r"(\d*\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)([fFlL]?)", t.text)
            if m:
                for step in (1, -1):
                    self.add(function, "constant", at, at, f"({float(m.group(1)) + step!r}{m.group(2)})")

    def change_statement(self, function, gives_status, first, last):
        head = self.tokens[first].text
        if first >= last or MESSAGE.match(head) or head in TYPE_WORDS:
            return
        if head == "return":
            if gives_status and self.tokens[last - 1].text == ")" and not MESSAGE.match(self.tokens[first + 1].text):
                self.add(function, "status dropped", first, last,
                         "{ (void)(" + self.text(first + 1, last - 1) + "); return MU_OK; }")
            return
        if head in JUMPS or is_declaration(self.tokens, first, last):
            return
        if head == "MU_TRY":
            self.add(function, "status dropped", first, first, "(void)")
        self.add(function, "statement", first, last, ";")

    def list(self):
        for function, gives_status, begin, end in functions_of(self.tokens):
            statements, conditions = statements_of(self.tokens, begin, end)
            quiet = self.quiet_tokens(begin, end, statements)
            for at in range(begin, end):
                if at not in quiet:
                    self.change_token(function, at)
            for first, last in conditions:
                self.add(function, "condition", first, last, "(!" + self.text(first, last) + ")")
            for first, last in statements:
                if self.tokens[last].text == ";":
                    self.change_statement(function, gives_status, first, last)
        return self.found


def number(mutants):
    """Gives each its identity. The same change of the same line in a function gets a running number."""
    seen = {}
    for m in mutants:
        key = (m.function, m.before, m.after)
        seen[key] = seen.get(key, 0) + 1
        text = "\n".join(key) + (f"\n{seen[key]}" if seen[key] > 1 else "")
        m.id = hashlib.sha256(text.encode()).hexdigest()[:10]
    return mutants


def list_mutants(sources):
    """All mutants of a dict path -> text."""
    found = []
    for path in sorted(sources):
        found += Lister(path, sources[path]).list()
    return number(found)


def pick(mutants, seed):
    """An order that depends on seed and identities alone, so new code does not change who else is picked."""
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.id}".encode()).hexdigest())
