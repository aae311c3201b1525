"""A lobby: sites hand over their public keys, get the study, and compare one code, before anybody approves anything.

The coordinator prints one line for each site (:mod:`~masquerade.lobby.invitation`) and keeps the lobby open
(:mod:`~masquerade.lobby.host`). Each site comes with its line (:mod:`~masquerade.lobby.guest`). All messages pass
through the coordinator, who may be dishonest: he could show each site another roster, with keys of his own in it. The
*code* (:mod:`~masquerade.lobby.code`) shows that. It is a hash over all that a site was shown. People compare it over a
way that the coordinator does not control. ``docs/joining.md`` says why it may be so short.
"""
