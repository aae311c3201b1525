"""Vote and soft labels of Hamm, Cao and Belkin (2016): classifiers of any kind label public records."""
